// SPDX-License-Identifier: Apache-2.0
// `verbena explore -- PROGRAM` runs a program many times on a NIC that delays and reorders as far
// as RDMA permits and, if asked, on a bad network, each time by another seed. It reduces what made
// the program fail to the fewest kinds, and prints the command that repeats the failure.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <expected>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/sizes.h"
#include "bench/sweep/interruption.h"
#include "nic/adversary/spec/spec.h"
#include "nic/faults/spec/spec.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/fault_options.h"
#include "tools/launch.h"
#include "tools/minimize.h"
#include "tools/option_values.h"
#include "tools/program.h"
#include "tools/trial.h"

namespace verbena::tools {
namespace {

constexpr int fails_anyway = impossible_data;

struct ExploreOptions {
	std::uint64_t runs = 20, first_seed = 1;
	std::string model = "tso";
	std::vector<std::string> faults;  // words as of `verbena run --faults`
	std::string server, json;
	double timeout_s = 60, server_wait_s = 1;
	int repeats = 3;
	bool keep_going = false;
};

// Kinds of the adversary, and words of --faults, which hold a "=".
using Items = std::vector<std::string>;

bool is_fault(const std::string& item) { return item.find('=') != item.npos; }

Items all_items(const ExploreOptions& options) {
	Items items;
	for (unsigned i = 0; i < adversary::kind_count; ++i)
		items.emplace_back(adversary::name_of(static_cast<adversary::Kind>(i)));
	items.insert(items.end(), options.faults.begin(), options.faults.end());
	return items;
}

// The options of `verbena run` for these items.
std::vector<std::string> run_options(const ExploreOptions& options, const Items& items, std::uint64_t seed) {
	std::vector<std::string> kinds, faults;
	for (const std::string& item : items) (is_fault(item) ? faults : kinds).push_back(item);
	std::vector<std::string> words;
	if (!kinds.empty()) {
		auto spec = adversary::parse(fmt::format("{}:{}:only={}", seed, options.model, fmt::join(kinds, "+")));
		words.push_back("--adversary=" + adversary::text_of(*spec));
	}
	if (!faults.empty()) words.push_back(fmt::format("--faults={},seed={}", fmt::join(faults, ","), seed));
	return words;
}

std::string quoted(const std::string& word) {
	const auto plain = [](unsigned char c) { return std::isalnum(c) || std::string_view("-_./=:,+%@").contains(c); };
	if (!word.empty() && std::ranges::all_of(word, plain)) return word;
	std::string text = "'";
	for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
	return text + "'";
}

std::string joined(const std::vector<std::string>& words) {
	std::string text;
	for (const std::string& word : words) text += (text.empty() ? "" : " ") + quoted(word);
	return text;
}

struct Found {
	std::uint64_t seed = 0;
	Verdict verdict;
	Items items;
	std::string command, server_command;
};

class Exploration {
public:
	Exploration(const ExploreOptions& options, const std::vector<std::string>& program)
		: options_(options), program_(program) {}

	Verdict run(const Items& items, std::uint64_t seed) const {
		return run_trial({.options = run_options(options_, items, seed),
			.program = program_,
			.server = options_.server,
			.limit = static_cast<Nanoseconds>(options_.timeout_s * 1e9),
			.server_wait = static_cast<Nanoseconds>(options_.server_wait_s * 1e9),
			.stop = [this] { return interruption_.asked(); }});
	}

	void throw_if_interrupted() const {
		if (interruption_.asked()) throw TrialStopped{};
	}

	// After Ctrl-C the items of the result are those that were left then.
	Found reduce(std::uint64_t seed, Verdict verdict) const {
		Found finding{seed, std::move(verdict), {}, {}, {}};
		finding.items = minimize(all_items(options_), [&](const Items& fewer) {
			try {
				for (int i = 0; i < options_.repeats; ++i)
					if (Verdict again = run(fewer, seed); !again.failure.empty()) {
						finding.verdict = std::move(again);
						return true;
					}
				return false;
			} catch (const TrialStopped&) {
				return false;
			}
		});
		const std::string run = "verbena run " + joined(run_options(options_, finding.items, seed)) + " -- ";
		finding.command = run + joined(program_);
		if (!options_.server.empty()) finding.server_command = run + options_.server;
		return finding;
	}

private:
	const bench::Interruption interruption_;
	const ExploreOptions& options_;
	const std::vector<std::string>& program_;
};

void print(const Found& finding) {
	constexpr int lines_max = 8;
	fmt::print("seed {:#x}: {} after {:.1f} s\n", finding.seed, finding.verdict.failure,
		static_cast<double>(finding.verdict.took) * 1e-9);
	std::vector<std::string_view> lines = split(finding.verdict.output, '\n');
	std::erase_if(lines, [](std::string_view line) { return line.empty() || line.starts_with("verbena: adversary"); });
	const std::size_t first = lines.size() > lines_max ? lines.size() - lines_max : 0;
	for (std::size_t i = first; i < lines.size(); ++i) fmt::print("    {}\n", lines[i]);
	fmt::print("it takes: {}\n", fmt::join(finding.items, ", "));
	if (!finding.server_command.empty()) fmt::print("server:    {}\n", finding.server_command);
	fmt::print("repeat it: {}\n", finding.command);
	std::fflush(stdout);
}

nlohmann::ordered_json json_of_found(const Found& finding) {
	nlohmann::ordered_json entry{{"seed", fmt::format("{:#x}", finding.seed)}, {"failure", finding.verdict.failure},
		{"takes", finding.items}, {"command", finding.command}, {"output", finding.verdict.output}};
	if (!finding.server_command.empty()) entry["server_command"] = finding.server_command;
	return entry;
}

// The file of --json. It is opened before the first run, so that no run is lost for a wrong name,
// and keeps an earlier result until there is a new one.
//
// Errors: one sentence with the name of the file and the reason.
class ResultFile {
public:
	// `path` may be "-", standard output, or empty: then nothing is written.
	static std::expected<ResultFile, std::string> open(const std::string& path) {
		ResultFile file(path);
		if (path.empty() || path == "-") return file;
		file.file_.reset(std::fopen(path.c_str(), "ae"));
		if (!file.file_) return std::unexpected(file.refusal());
		return file;
	}

	// Writes the whole text, once.
	std::expected<void, std::string> write(const std::string& text) {
		if (path_ == "-") fmt::print("{}", text);
		if (!file_) return {};
		// A device or a pipe has no contents to remove.
		if (ftruncate(fileno(file_.get()), 0) != 0 && errno != EINVAL) return std::unexpected(refusal());
		const bool written = std::fputs(text.c_str(), file_.get()) >= 0 && std::fflush(file_.get()) == 0;
		if (!written) return std::unexpected(refusal());
		if (std::fclose(file_.release()) != 0) return std::unexpected(refusal());
		return {};
	}

private:
	struct Close {
		void operator()(std::FILE* file) const { std::fclose(file); }
	};

	explicit ResultFile(std::string path) : path_(std::move(path)) {}
	std::string refusal() const { return fmt::format("cannot write {}: {}", path_, std::strerror(errno)); }

	std::string path_;
	std::unique_ptr<std::FILE, Close> file_;
};

int explore(const ExploreOptions& options, const std::vector<std::string>& program) {
	auto file = ResultFile::open(options.json);
	if (!file) return complain(file.error(), usage);
	const Exploration exploration(options, program);
	nlohmann::ordered_json report{{"program", program}, {"server", options.server}, {"model", options.model},
		{"runs", 0}, {"failures", nlohmann::ordered_json::array()}};
	const auto finish = [&](int code) {
		const std::string text = report.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
		if (const auto written = file->write(text); !written) return complain(written.error());
		return code;
	};
	std::uint64_t failures = 0, run = 0;
	try {
		if (const Verdict plain = exploration.run({}, 0); !plain.failure.empty()) {
			report["fails_anyway"] = plain.failure;
			print_error("{}", plain.output);
			complain(
				fmt::format("the program fails without --adversary, too ({}): first make it pass under 'verbena run'",
					plain.failure));
			return finish(fails_anyway);
		}
		while (run < options.runs && (failures == 0 || options.keep_going)) {
			const std::uint64_t seed = options.first_seed + run;
			Verdict verdict = exploration.run(all_items(options), seed);
			report["runs"] = ++run;
			if (verdict.failure.empty()) continue;
			++failures;
			const Found finding = exploration.reduce(seed, std::move(verdict));
			print(finding);
			report["failures"].push_back(json_of_found(finding));
			exploration.throw_if_interrupted();
		}
	} catch (const TrialStopped&) {
		report["interrupted"] = true;
		fmt::print("ended by Ctrl-C after {} runs under {}, {} failed\n", run, options.model, failures);
		return finish(bench::interrupted);
	}
	fmt::print("{} runs under {}, {} failed\n", run, options.model, failures);
	return finish(failures == 0 ? good : failed);
}

// The words of all options, without filters: those are for a single program that knows its peers.
std::optional<std::string> mistake_in(const std::vector<std::string>& faults) {
	for (const std::string& word : faults) {
		if (word.starts_with("seed=") || word.starts_with("peer=") || word.starts_with("qp=") || word.contains(';'))
			return fmt::format("--faults: '{}' cannot be explored; use verbena run --faults", word);
		if (const auto text = fault_text({word}); !text) return text.error();
	}
	return std::nullopt;
}

}  // namespace

CLI::App* add_explore(CLI::App& app, Action& action, const ProgramWords& program) {
	CLI::App* sub = add_command(app, "explore",
		"Run a program many times on a NIC that delays and reorders as far as RDMA permits: verbena explore [OPTIONS] "
		"[--] PROGRAM [ARGUMENTS]");
	sub->footer(
		"Each run has another seed of `verbena run --adversary` and of --faults. The first run that fails is reduced\n"
		"to the fewest kinds of behaviour that make it fail, such as late bytes, and the command that repeats it is\n"
		"printed (docs/adversary.md). After Ctrl-C the runs so far are written by --json.\n"
		"Examples:\n"
		"  verbena explore -- ./test\n"
		"  verbena explore --runs 200 --model iba -- ./test\n"
		"  verbena explore --server 'ib_write_bw -x 0' -- ib_write_bw -x 0 localhost\n"
		"  verbena explore --faults loss=1%,dup=1% --json found.json -- ./test\n"
		"Exit codes: 0 no run failed, 1 one has failed, 2 wrong usage, 3 the program fails without --adversary, too,\n"
		"127 there is no such program, 130 ended by Ctrl-C.");
	auto options = std::make_shared<ExploreOptions>();
	sub->add_option("--runs", options->runs, "The number of runs, each with the next seed")
		->check(CLI::Range(1, 1'000'000))
		->capture_default_str();
	sub->add_option("--first-seed", options->first_seed, "The seed of the first run")->capture_default_str();
	sub->add_option("--model", options->model, "The order and delays that are permitted")
		->check(CLI::IsMember({"tso", "iba", "loose"}))
		->capture_default_str();
	sub->add_option("--faults", options->faults, "Faults of the network, too: words of verbena run --faults")
		->type_name("LIST")
		->delimiter(',')
		->allow_extra_args(false);
	sub->add_option("--server", options->server, "Run this command beside the program, as its server")
		->type_name("COMMAND");
	sub->add_option("--server-wait", options->server_wait_s,
		   "Seconds that the program waits at most until the server listens on a TCP port")
		->check(CLI::Range(0.0, 600.0))
		->capture_default_str();
	sub->add_option("--timeout", options->timeout_s, "Seconds after which a run has failed")
		->check(CLI::Range(0.001, 86'400.0))
		->capture_default_str();
	sub->add_option("--repeats", options->repeats, "Runs with fewer kinds, before one of those left out is kept")
		->check(CLI::Range(1, 1000))
		->capture_default_str();
	sub->add_flag("--keep-going", options->keep_going, "Do not stop at the first failure");
	sub->add_option("--json", options->json, "Write the result to FILE; - is standard output")
		->type_name("FILE")
		->check(not_empty());
	sub->callback([options, &action, &program] {
		action = [options, &program] {
			if (program.empty())
				return complain(
					"there is no command to run: use verbena explore [OPTIONS] -- PROGRAM [ARGUMENTS]", usage);
			if (const auto mistake = mistake_in(options->faults)) return complain(*mistake, usage);
			if (const auto refusal = refusal_of(look(program)))
				return complain(fmt::format("{}: {}", refusal->reason, refusal->advice), refusal->exit_code);
			return explore(*options, program);
		};
	});
	return sub;
}

}  // namespace verbena::tools
