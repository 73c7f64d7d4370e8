// SPDX-License-Identifier: Apache-2.0
// verbena-sim: runs checked traffic on the simulated fabric, once for each seed. The seed
// determines everything about a run.
//
//     verbena-sim --seeds 1:1000 --loss 5%
//
// Prints each seed that fails, with its problems and the command that repeats it. Exit status: 0 if
// all runs were good, 1 if one was not, 2 for a usage error.
#include <charconv>
#include <cstdio>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "nic/sim/conversation.h"

namespace {

using namespace verbena::sim;

constexpr const char* usage =
	"usage: verbena-sim [--seeds A:B] [--loss P] [--duplicate P] [--reorder P] [--corrupt P] [--forge R] [--lossless]\n"
	"                   [--verbose] | --help | --version\n"
	"  --seeds A:B    run the seeds A to B, both included, or a single seed A; default 1:100\n"
	"  --loss P       the largest probability of a packet's loss in a run, as 5% or 0.05; default 5%\n"
	"  --duplicate P  likewise of its duplication; default 2%\n"
	"  --reorder P    likewise of its delivery out of order; default 5%\n"
	"  --corrupt P    likewise of its corruption; default 2%\n"
	"  --forge R      the highest rate of forged NAKs with PSNs in the window, for each queue pair, in 1/ms; default "
	"0\n"
	"  --lossless     simulate the link between two processes of one host, without packets and faults\n"
	"  --verbose      print a line for each seed\n"
	"  --version      print the version\n"
	"Exit codes: 0 all runs were good, 1 one was not, 2 wrong usage.\n";

struct Options {
	std::uint64_t first = 1, last = 100;
	Faults faults{.drop = 0.05, .duplicate = 0.02, .reorder = 0.05, .corrupt = 0.02};
	double forged_max = 0;
	bool lossless = false, verbose = false;
};

std::optional<std::uint64_t> number(std::string_view text) {
	std::uint64_t value = 0;
	const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
	return error == std::errc{} && end == text.end() ? std::optional(value) : std::nullopt;
}

std::optional<double> probability(std::string_view text) {
	const double unit = text.ends_with('%') ? 0.01 : 1;
	if (unit != 1) text.remove_suffix(1);
	double value = 0;
	const auto [end, error] = std::from_chars(text.begin(), text.end(), value);
	if (error != std::errc{} || end != text.end() || !(value >= 0 && value * unit <= 1)) return std::nullopt;
	return value * unit;
}

// The functions that set an option return what it takes, if the text is something else.
using Expected = std::string_view;
constexpr Expected taken = "";

Expected set_seeds(Options& options, std::string_view text) {
	constexpr Expected expected = "a seed, or two as A:B with A up to B";
	const std::size_t colon = text.find(':');
	const auto first = number(text.substr(0, colon));
	const auto last = colon == std::string_view::npos ? first : number(text.substr(colon + 1));
	if (!first || !last || *last < *first) return expected;
	options.first = *first;
	options.last = *last;
	return taken;
}

Expected set_forged(Options& options, std::string_view text) {
	const auto rate = number(text);
	if (!rate || *rate > 1000) return "a whole number from 0 to 1000";
	options.forged_max = static_cast<double>(*rate);
	return taken;
}

Expected set_fault(double& fault, std::string_view text) {
	const auto value = probability(text);
	if (!value) return "a probability from 0 to 1, or from 0% to 100%";
	fault = *value;
	return taken;
}

double* fault_of(Options& options, std::string_view option) {
	if (option == "--loss") return &options.faults.drop;
	if (option == "--duplicate") return &options.faults.duplicate;
	if (option == "--reorder") return &options.faults.reorder;
	if (option == "--corrupt") return &options.faults.corrupt;
	return nullptr;
}

// Errors: one sentence that names the argument that is wrong.
std::expected<Options, std::string> parse(int argc, char** argv) {
	Options options;
	for (int i = 1; i < argc; ++i) {
		const std::string option = argv[i];
		double* const fault = fault_of(options, option);
		if (option == "--lossless") options.lossless = true;
		else if (option == "--verbose") options.verbose = true;
		else if (fault == nullptr && option != "--seeds" && option != "--forge")
			return std::unexpected(
				(option.starts_with("--") ? "there is no option '" : "there is no argument '") + option + "'");
		else if (++i == argc) return std::unexpected(option + " needs a value");
		else {
			const Expected expected = fault != nullptr ? set_fault(*fault, argv[i])
				: option == "--seeds"                  ? set_seeds(options, argv[i])
													   : set_forged(options, argv[i]);
			if (!expected.empty())
				return std::unexpected(option + " takes " + std::string(expected) + ", and not '" + argv[i] + "'");
		}
	}
	return options;
}

void print_replay(const Options& o, std::uint64_t seed) {
	std::printf("replay: verbena-sim --seeds %llu", static_cast<unsigned long long>(seed));
	if (o.lossless) std::printf(" --lossless\n");
	else
		std::printf(" --loss %g --duplicate %g --reorder %g --corrupt %g --forge %g\n", o.faults.drop,
			o.faults.duplicate, o.faults.reorder, o.faults.corrupt, o.forged_max);
}

}  // namespace

int main(int argc, char** argv) {
	const std::string_view only = argc == 2 ? argv[1] : "";
	if (only == "--help" || only == "-h") return std::fputs(usage, stdout) < 0;
	if (only == "--version") return std::puts("verbena-sim " VERBENA_VERSION) < 0;
	const auto options = parse(argc, argv);
	if (!options) {
		std::fprintf(
			stderr, "verbena-sim: %s\nRun 'verbena-sim --help' for more information.\n", options.error().c_str());
		return 2;
	}
	std::uint64_t failed = 0, packets = 0, lost = 0;
	for (std::uint64_t seed = options->first;; ++seed) {
		const Outcome outcome = converse(drawn(seed, options->faults, options->lossless, options->forged_max));
		packets += outcome.statistics.packets;
		lost += outcome.statistics.dropped;
		if (!outcome.good) {
			++failed;
			std::printf("seed %llu FAILED\n%s", static_cast<unsigned long long>(seed), outcome.report.c_str());
			print_replay(*options, seed);
		} else if (options->verbose) {
			std::printf("seed %llu: %llu packets, %llu lost, %llu duplicated, %llu corrupted, %.3f virtual ms\n",
				static_cast<unsigned long long>(seed), static_cast<unsigned long long>(outcome.statistics.packets),
				static_cast<unsigned long long>(outcome.statistics.dropped),
				static_cast<unsigned long long>(outcome.statistics.duplicated),
				static_cast<unsigned long long>(outcome.statistics.corrupted), static_cast<double>(outcome.took) / 1e6);
		}
		if (seed == options->last) break;
	}
	const std::uint64_t runs = options->last - options->first + 1;
	std::printf("%llu of %llu seeds good; %llu packets, %llu lost\n", static_cast<unsigned long long>(runs - failed),
		static_cast<unsigned long long>(runs), static_cast<unsigned long long>(packets),
		static_cast<unsigned long long>(lost));
	return failed ? 1 : 0;
}
