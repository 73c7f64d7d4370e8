// SPDX-License-Identifier: Apache-2.0
// The hit rates of the eviction beside those of libCacheSim, the simulator of the authors of
// S3-FIFO. tests/kv/s3fifo_rates.py makes the same traces, and prints the rows of `expected`.
#include <gtest/gtest.h>

#include <cmath>

#include "lib/kv/state/cache_fixture.h"

namespace verbena::kv {
namespace {

using testing_tools::TestCache;

constexpr std::uint64_t keys = 100'000, requests = 1'000'000, scan_length = 1000, scan_every = 2000;
constexpr std::size_t mean_bytes = 2100;  // the mean of the items of the trace "sized"

class Zipf {
public:
	Zipf() {
		double sum = 0;
		for (std::uint64_t rank = 1; rank <= keys; ++rank)
			sums_.push_back(sum += std::pow(static_cast<double>(rank), -0.99));
	}
	std::uint64_t next() {
		const double point = static_cast<double>(split_mix(state_) >> 11) * 0x1p-53 * sums_.back();
		return static_cast<std::uint64_t>(std::ranges::upper_bound(sums_, point) - sums_.begin());
	}

private:
	std::vector<double> sums_;
	std::uint64_t state_ = 1;
};

// Zipf, and now and then a scan of keys that never come again.
class Scans {
public:
	std::uint64_t next() {
		if (left_ == 0 && split_mix(state_) % scan_every == 0) left_ = scan_length + 1;
		if (left_ > 0 && --left_ > 0) return ++scanned_;
		return popular_.next();
	}

private:
	Zipf popular_;
	std::uint64_t state_ = 2, scanned_ = keys, left_ = 0;
};

std::size_t bytes_of(std::uint64_t key) { return 100 + split_mix(key) % 4000; }

struct Row {
	const char* trace;
	std::size_t items;
	std::uint64_t hits;
};
// libcachesim 0.3.5 of PyPI, with its defaults.
constexpr Row expected[] = {
	{"zipf", 2000, 638847},
	{"zipf", 10000, 767278},
	{"zipf", 30000, 852912},
	{"scans", 2000, 425103},
	{"scans", 10000, 497213},
	{"scans", 30000, 535669},
	{"sized", 2000, 637951},
	{"sized", 10000, 766839},
	{"sized", 30000, 852742},
};

class EvictionRates : public ::testing::TestWithParam<Row> {};
INSTANTIATE_TEST_SUITE_P(Traces, EvictionRates, ::testing::ValuesIn(expected),
	[](const auto& info) { return std::string(info.param.trace) + std::to_string(info.param.items); });

TEST_P(EvictionRates, AreWithinOnePercentOfLibCacheSim) {
	const Row& row = GetParam();
	const std::string trace = row.trace;
	TestCache cache(trace == "sized" ? row.items * mean_bytes : row.items);
	Zipf zipf;
	Scans scans;
	std::uint64_t hits = 0;
	for (std::uint64_t i = 0; i < requests; ++i) {
		const std::uint64_t key = trace == "scans" ? scans.next() : zipf.next();
		hits += cache.get(key, trace == "sized" ? bytes_of(key) : 1);
	}
	RecordProperty("hits", static_cast<int>(hits));
	EXPECT_NEAR(static_cast<double>(hits), static_cast<double>(row.hits), static_cast<double>(row.hits) / 100);
}

}  // namespace
}  // namespace verbena::kv
