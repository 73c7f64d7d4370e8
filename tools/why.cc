// `verbena why TRACE...` prints the explanations in traces: a file of `verbena run --trace=FILE`,
// in either format, or a folder that processes wrote with VERBENA_TRACE.
//
// Errors: exit code 1 if a trace cannot be read.
#include <fmt/format.h>

#include "nic/trace/read/text.h"
#include "tools/commands.h"
#include "tools/trace_input.h"

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

int explain(const std::vector<std::string>& paths) {
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
	CLI::App* const sub = app.add_subcommand("why", "Explain what failed in a trace: verbena why TRACE...");
	sub->footer(
		"Example:\n"
		"  verbena run --trace=trace.txt -- ./program\n"
		"  verbena why trace.txt");
	auto paths = std::make_shared<std::vector<std::string>>();
	sub->add_option("TRACE", *paths, "A file of `verbena run --trace=FILE`, or a folder of VERBENA_TRACE")->required();
	sub->callback([paths, &action] { action = [paths] { return explain(*paths); }; });
}

}  // namespace verbena::tools
