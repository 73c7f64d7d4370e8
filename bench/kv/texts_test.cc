// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/texts.h"

#include <gtest/gtest.h>

namespace verbena::kvbench {
namespace {

using bench::Json;

Json row(const char* proto, std::uint64_t bytes, double low, double rate, double high) {
	return {{"op", "SET"}, {"window", 1}, {"clients", 1}, {"form", ""}, {"proto", proto}, {"value_bytes", bytes},
		{"gigabytes_per_second", rate}, {"gigabytes_per_second_low", low}, {"gigabytes_per_second_high", high}};
}

// The line of the only size, and the line with the conclusion.
std::string crossover(const Json& eager, const Json& rendezvous) {
	const std::string text = to_crossover({{}, {eager, rendezvous}}, {});
	return text.substr(text.find('\n') + 1);
}

bool has(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

TEST(KvCrossover, IsWhereRendezvousIsAheadByMoreThanTheIntervals) {
	const std::string text = crossover(row("eager", 64 << 10, 1, 2, 3), row("rendezvous", 64 << 10, 4, 5, 6));
	EXPECT_TRUE(has(text, "]  rendezvous\n")) << text;
	EXPECT_TRUE(has(text, "rendezvous is ahead from 64 KiB on: --eager-max 65536")) << text;
}

TEST(KvCrossover, IntervalsThatOverlapDecideNothing) {
	for (const auto& [low, high] : {std::pair(3.0, 6.0), std::pair(1.5, 2.5), std::pair(1.0, 6.0)}) {
		const std::string text = crossover(row("eager", 4096, 1, 2, 3), row("rendezvous", 4096, low, 2.4, high));
		EXPECT_TRUE(has(text, "no significant difference")) << text;
		EXPECT_TRUE(has(text, "rendezvous is not ahead at the largest sizes measured")) << text;
	}
}

TEST(KvCrossover, EagerMayBeAhead) {
	const std::string text = crossover(row("eager", 4096, 4, 5, 6), row("rendezvous", 4096, 1, 2, 3));
	EXPECT_TRUE(has(text, "]  eager\n")) << text;
}

TEST(KvCrossover, BeginsAnewBehindASizeAtWhichRendezvousIsBehind) {
	const std::string text = to_crossover(
		{{},
			{row("eager", 1024, 1, 2, 3), row("rendezvous", 1024, 4, 5, 6), row("eager", 2048, 4, 5, 6),
				row("rendezvous", 2048, 1, 2, 3), row("eager", 4096, 1, 2, 3), row("rendezvous", 4096, 4, 5, 6)}},
		{});
	EXPECT_TRUE(has(text, "rendezvous is ahead from 4 KiB on: --eager-max 4096")) << text;
}

}  // namespace
}  // namespace verbena::kvbench
