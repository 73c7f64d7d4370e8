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
#include <optional>
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
	if (error != std::errc{} || end != text.end() || value < 0 || value * unit > 1) return std::nullopt;
	return value * unit;
}

bool set_seeds(Options& options, std::string_view text) {
	const std::size_t colon = text.find(':');
	const auto first = number(text.substr(0, colon));
	const auto last = colon == std::string_view::npos ? first : number(text.substr(colon + 1));
	if (!first || !last || *last < *first) return false;
	options.first = *first;
	options.last = *last;
	return true;
}

std::optional<Options> parse(int argc, char** argv) {
	Options options;
	for (int i = 1; i < argc; ++i) {
		const std::string_view option = argv[i];
		if (option == "--lossless") options.lossless = true;
		else if (option == "--verbose") options.verbose = true;
		else if (++i == argc) return std::nullopt;
		else if (option == "--seeds") {
			if (!set_seeds(options, argv[i])) return std::nullopt;
		} else if (option == "--forge") {
			const auto rate = number(argv[i]);
			if (!rate || *rate > 1000) return std::nullopt;
			options.forged_max = static_cast<double>(*rate);
		} else {
			double* const fault = option == "--loss" ? &options.faults.drop
				: option == "--duplicate"            ? &options.faults.duplicate
				: option == "--reorder"              ? &options.faults.reorder
				: option == "--corrupt"              ? &options.faults.corrupt
													 : nullptr;
			const auto value = probability(argv[i]);
			if (!fault || !value) return std::nullopt;
			*fault = *value;
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
	const std::optional<Options> options = parse(argc, argv);
	if (!options) {
		std::fputs(usage, stderr);
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
