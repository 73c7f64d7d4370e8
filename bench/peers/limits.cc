// SPDX-License-Identifier: Apache-2.0
// Measures limits of the machine that bound every figure beside them.
//
//     peers_limits line          the round trip of a cache line between the first two processors
//                                that this program may use, in nanoseconds, and its class
//     peers_limits copy BYTES    the rate of memcpy between two buffers of this size, in GiB/s
//
// A buffer of 8 KiB stays in the first-level cache; one of 64 MiB is in memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/statistics.h"
#include "bench/far_end/round_trip.h"
#include "bench/peers/end.h"
#include "bench/rcud/endpoint.h"

namespace verbena::peers {
namespace {

constexpr const char* usage_line = "peers_limits line | peers_limits copy BYTES";
constexpr double gib = 1 << 30;

void print_line() {
	bench::RoundTrip page = bench::RoundTrip::create();
	page.reset();
	const int child = fork_child();
	pin(child == 0 ? 1 : 0);
	if (child == 0) {
		page.answer();
		std::quick_exit(0);
	}
	const auto took = page.ask();
	await_child(child);
	if (!took) throw Failure("no round trip was complete in time");
	std::printf("{\"rtt_ns\": %.1f, \"class\": \"%s\"}\n", *took, std::string(bench::class_of(*took)).c_str());
}

void print_copy(std::size_t bytes) {
	constexpr std::size_t series = 9, bytes_a_series = 256 << 20;
	const rcud::Buffer from(bytes), to(bytes);
	const std::size_t copies = std::max<std::size_t>(1, bytes_a_series / bytes);
	std::vector<double> rates;
	for (std::size_t i = 0; i < series; ++i) {
		const std::uint64_t start = rcud::now_ns();
		for (std::size_t copy = 0; copy < copies; ++copy) {
			std::memcpy(to.data(), from.data(), bytes);
			asm volatile("" : : "r"(to.data()) : "memory");  // the copy is not optimised away
		}
		const auto took_ns = static_cast<double>(rcud::now_ns() - start);
		rates.push_back(static_cast<double>(copies * bytes) / gib / (took_ns / 1e9));
	}
	std::printf("{\"gib_per_s\": %.3f}\n", median(rates));
}

void run(int count, char** words) {
	const std::string_view what = count > 1 ? words[1] : "";
	if (what == "line" && count == 2) print_line();
	else if (what == "copy" && count == 3) print_copy(number(words[2], 1 << 30, usage_line));
	else usage(usage_line);
}

}  // namespace
}  // namespace verbena::peers

int main(int count, char** words) { return verbena::peers::run_program(verbena::peers::run, count, words, 30); }
