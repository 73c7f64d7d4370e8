// SPDX-License-Identifier: Apache-2.0
#include "lib/metrics/families.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/metrics/export.h"

namespace verbena::metrics {
namespace {

TEST(Buckets, ADurationFallsIntoTheFirstBucketThatHoldsIt) {
	Buckets buckets;
	for (const std::uint64_t ns : {0ull, 1000ull, 1001ull, 2000ull, 200'000'000'000ull}) buckets.record(ns);
	const Family family = buckets.family("x_seconds", "x");
	const Distribution& of = family.samples.at(0).distribution;
	ASSERT_EQ(of.counts.size(), of.bounds.size() + 1);
	EXPECT_DOUBLE_EQ(of.bounds[0], 1e-6);
	EXPECT_DOUBLE_EQ(of.bounds[1], 2e-6);
	EXPECT_EQ(of.counts[0], 2u);
	EXPECT_EQ(of.counts[1], 2u);
	EXPECT_EQ(of.counts.back(), 1u);
	EXPECT_NEAR(of.sum, 200.000004001, 1e-9);
}

TEST(WordCounter, WordsBeyondTheLimitCountAsOther) {
	WordCounter tally;
	for (int i = 0; i < 1000; ++i) tally.count(std::to_string(i));
	tally.count("0");
	const Family family = tally.family("errors_total", "x", "status");
	EXPECT_LE(family.samples.size(), WordCounter::words_max);
	double all = 0;
	for (const Sample& each : family.samples) all += each.value;
	EXPECT_EQ(all, 1001);
	EXPECT_EQ(family.samples.front().value, 2);
	EXPECT_EQ(family.samples.back().labels, (Labels{{"status", "other"}}));
}

class Sysfs : public ::testing::Test {
protected:
	Sysfs() {
		std::string name = (std::filesystem::temp_directory_path() / "sysfs-XXXXXX").string();
		root_ = mkdtemp(name.data());
		put("counters/port_rcv_data", "25\n");
		put("counters/port_xmit_packets", "7\n");
		put("hw_counters/out_of_sequence", "3\n");
		put("hw_counters/lifespan", "10\n");
		put("hw_counters/odd", "none\n");
	}
	~Sysfs() override { std::filesystem::remove_all(root_); }
	void put(const std::string& file, const std::string& text) {
		const auto path = root_ / "mlx5_0" / "ports" / "1" / file;
		std::filesystem::create_directories(path.parent_path());
		std::ofstream(path) << text;
	}
	std::filesystem::path root_;
};

TEST_F(Sysfs, TheKernelsCountersHaveNodeExportersNames) {
	std::vector<std::pair<std::string, double>> found;
	for (const Family& each : port_families(root_ / "mlx5_0", "mlx5_0", 1))
		found.emplace_back(each.name, each.samples.at(0).value);
	EXPECT_EQ(found,
		(std::vector<std::pair<std::string, double>>{{"verbena_port_data_received_bytes_total", 100},
			{"verbena_port_packets_transmitted_total", 7}, {"verbena_out_of_sequence_total", 3}}));
}

TEST_F(Sysfs, RetriesHaveOneNameWhicheverDriverCountsThem) {
	put("hw_counters/rnr_nak_retry_err", "5\n");
	put("hw_counters/out_of_buffer", "6\n");
	put("hw_counters/local_ack_timeout_err", "7\n");
	put("hw_counters/packet_seq_err", "8\n");
	std::map<std::string, std::vector<double>> found;
	for (const Family& each : port_families(root_ / "mlx5_0", "mlx5_0", 1))
		for (const Sample& sample : each.samples) found[each.name].push_back(sample.value);
	EXPECT_EQ(found["verbena_rnr_naks_total"], (std::vector<double>{5, 6}));
	EXPECT_EQ(found["verbena_retransmissions_total"], (std::vector<double>{15}));
	EXPECT_EQ(found["verbena_rnr_nak_retry_err_total"], (std::vector<double>{5}));
	EXPECT_FALSE(found.contains("verbena_retries_exceeded_total")) << "this driver does not count it";
}

TEST_F(Sysfs, ADeviceWithoutCountersHasNoneOfThem) { EXPECT_TRUE(port_families(root_ / "other", "other", 1).empty()); }

TEST(Json, HasEverySampleWithItsLabels) {
	Buckets buckets;
	buckets.record(1500);
	const auto json = nlohmann::json::parse(
		to_json({gauge("a", "An a.", 2, {{"l", "quote \" and \\"}}), buckets.family("b_seconds", "A b.")}));
	EXPECT_EQ(json["a"]["samples"][0]["labels"]["l"], "quote \" and \\");
	EXPECT_EQ(json["a"]["type"], "gauge");
	EXPECT_EQ(json["b_seconds"]["samples"][0]["count"], 1);
	EXPECT_EQ(json["b_seconds"]["samples"][0]["buckets"][0][1], 0);
	EXPECT_EQ(json["b_seconds"]["samples"][0]["buckets"][1][1], 1);
}

TEST(Endpoint, APortInUseIsReported) {
	const auto first = Endpoint::open("0", [] { return Families(); });
	ASSERT_TRUE(first) << first.error();
	EXPECT_GT((*first)->port(), 0);
	const auto second = Endpoint::open(std::to_string((*first)->port()), [] { return Families(); });
	ASSERT_FALSE(second);
	EXPECT_NE(second.error().find("in use"), std::string::npos);
}

}  // namespace
}  // namespace verbena::metrics
