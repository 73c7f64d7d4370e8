// SPDX-License-Identifier: Apache-2.0
// `verbena why TRACE...` prints the explanations in traces: a file of `verbena run --trace=FILE`,
// in either format, or a folder that processes wrote with VERBENA_TRACE. `verbena why PID` says for
// what the queue pairs of a process that runs are waiting.
//
// Errors: exit code 1 if a trace cannot be read, or if the process is not on the NIC.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <optional>
#include <thread>

#include "nic/status/door.h"
#include "nic/trace/read/text.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/trace_input.h"
#include "tools/waiting.h"

namespace verbena::tools {
namespace {

std::expected<std::vector<std::string>, std::string> explanations_of(const std::string& path) {
	const auto input = read_trace_input(path);
	if (!input) return std::unexpected(input.error());
	if (const auto* trace = std::get_if<trace::Trace>(&*input)) return trace::explanations(*trace);
	const auto all = trace::explanations_in(std::get<std::string>(*input));
	if (!all) return std::unexpected(path + ": this is no trace of verbena run --trace");
	return *all;
}

// A look at all processes and another one, between which a queue pair that works has moved.
constexpr std::chrono::milliseconds between_looks{500};
constexpr std::size_t sentences_max = 20;

bool is_stopped(std::uint32_t pid) {
	std::ifstream file("/proc/" + std::to_string(pid) + "/status");
	for (std::string line; std::getline(file, line);)
		if (line.starts_with("State:\t")) return line[7] == 'T' || line[7] == 't';
	return false;
}

// The pid, if the word is a number and no file has this name.
std::optional<std::uint32_t> pid_in(const std::string& word) {
	std::uint32_t pid = 0;
	const auto read = std::from_chars(word.data(), word.data() + word.size(), pid);
	if (read.ec != std::errc{} || read.ptr != word.data() + word.size() || std::filesystem::exists(word))
		return std::nullopt;
	return pid;
}

int explain_process(std::uint32_t pid) {
	const auto before = status::ask_all();
	std::this_thread::sleep_for(between_looks);
	const auto now = status::ask_all();
	if (std::ranges::find(now, pid, &status::Process::pid) == now.end()) {
		if (is_stopped(pid))
			return complain(fmt::format("process {} is stopped and cannot be asked; SIGCONT lets it go on", pid));
		return complain(fmt::format(
			"there is no process {} of this user on the NIC in this network namespace; verbena top lists them", pid));
	}
	const auto sentences = why_waiting(pid, {before, now, is_stopped});
	for (std::size_t i = 0; i < std::min(sentences.size(), sentences_max); ++i)
		fmt::print("{}. {}\n", i + 1, sentences[i]);
	if (sentences.size() > sentences_max)
		fmt::print("... and {} more; verbena top shows all\n", sentences.size() - sentences_max);
	if (sentences.empty()) fmt::print("No queue pair of process {} waits for its peer.\n", pid);
	return good;
}

int explain(const std::vector<std::string>& paths) {
	if (paths.size() == 1)
		if (const auto pid = pid_in(paths[0])) return explain_process(*pid);
	std::size_t count = 0;
	for (const std::string& path : paths) {
		const auto all = explanations_of(path);
		if (!all) return complain(all.error());
		for (const std::string& sentence : *all) fmt::print("{}. {}\n", ++count, sentence);
	}
	if (count == 0) fmt::print("Nothing in the trace failed in a way that needs an explanation.\n");
	return good;
}

}  // namespace

void add_why(CLI::App& app, Action& action) {
	CLI::App* const sub = add_command(
		app, "why", "Explain what failed in a trace, or for what a process waits: verbena why TRACE... | PID");
	sub->footer(
		"Examples:\n"
		"  verbena run --trace=trace.txt -- ./program\n"
		"  verbena why trace.txt           what failed, and why\n"
		"  verbena why 812                 for what the queue pairs of process 812 are waiting now");
	auto paths = std::make_shared<std::vector<std::string>>();
	sub->add_option("TRACE", *paths, "A file of `verbena run --trace=FILE`, a folder of VERBENA_TRACE, or a process")
		->required();
	sub->callback([paths, &action] { action = [paths] { return explain(*paths); }; });
}

}  // namespace verbena::tools
