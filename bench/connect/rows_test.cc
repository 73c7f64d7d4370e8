// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/rows.h"

#include <gtest/gtest.h>

#include "bench/judge/judge.h"
#include "bench/table/table.h"

namespace verbena::connect {
namespace {

using bench::Json;
using bench::Validity;
using bench::Verdict;

// 3 us for each connect and 5 us for each disconnect, `clients` of them under way at all times.
Repetition measured(std::uint32_t clients, std::uint32_t count) {
	Repetition r{.clients = clients, .count = count};
	r.connect_elapsed_ns = 3000ull * count / clients;
	r.disconnect_elapsed_ns = 5000ull * count / clients;
	r.total.record(3000, count);
	for (const auto& [part, ns] : {std::pair(0, 500), std::pair(1, 500), std::pair(2, 1000), std::pair(3, 1000)})
		r.parts[static_cast<std::size_t>(part)].record(static_cast<std::uint64_t>(ns), count);
	r.disconnect.record(5000, count);
	r.total_sum_ns = 3000ull * count;
	r.disconnect_sum_ns = 5000ull * count;
	r.account = {.established = count, .disconnected = count};
	return r;
}

Json row_with(std::uint32_t clients, std::initializer_list<Repetition> repetitions) {
	Json list = Json::array();
	for (const Repetition& each : repetitions) list.push_back(json_of("rdmacm", each));
	return row_of("rdmacm", clients, repetitions.begin()->count, std::move(list));
}

Verdict judged(const Json& row) { return bench::judge(experiment(), {.rows = {row}})->front(); }

TEST(ConnectRow, HasTheMedianOfTheRatesAndTheSumOfTheCounts) {
	Repetition slow = measured(1, 100), other = measured(1, 100);
	slow.connect_elapsed_ns *= 2;
	++other.disconnect_elapsed_ns;
	const Json row = row_with(1, {measured(1, 100), other, slow});
	EXPECT_NEAR(row["connects_per_s"].get<double>(), 1e9 / 3000, 1);
	EXPECT_NEAR(row["connects_per_s_low"].get<double>(), 1e9 / 6000, 1);
	EXPECT_EQ(row["established"], 300);
	EXPECT_DOUBLE_EQ(row["p50_us"], 3);
	EXPECT_DOUBLE_EQ(row["queue_pair_p50_us"], 1);
	EXPECT_DOUBLE_EQ(row["disconnect_p9999_us"], 5);
	EXPECT_EQ(judged(row).validity, Validity::valid) << judged(row).reason;
}

TEST(ConnectRow, ReadsBackFromCsvAndJsonAsItWas) {
	const bench::Table table{.rows = {row_with(1, {measured(1, 10)})}};
	for (const std::string& text :
		{bench::to_csv(table, experiment().columns), bench::to_json(table, experiment().columns)}) {
		const auto read = bench::read_table(text);
		ASSERT_TRUE(read) << read.error();
		EXPECT_EQ(bench::judge(experiment(), *read)->front().reason, "");
	}
}

TEST(ConnectRow, IsInvalidWhenTheServersCountsDiffer) {
	Repetition one = measured(4, 10);
	one.account.disconnected = 9;
	EXPECT_EQ(judged(row_with(4, {one})).reason,
		"repetition 1: the server counted 10 established and 9 disconnected connections of 10");
}

// The connects, or only the disconnects, took no time, and their rate was any.
TEST(ConnectRow, NothingTakesNoTime) {
	Repetition no_connect = measured(4, 10), no_disconnect = measured(4, 10);
	no_connect.total = no_connect.disconnect = {};
	for (Histogram& part : no_connect.parts) part = {}, part.record(0, 10);
	no_connect.total.record(0, 10);
	no_connect.disconnect.record(5000, 10);
	no_connect.total_sum_ns = 0;
	EXPECT_EQ(judged(row_with(4, {no_connect})).reason, "repetition 1: connects that took no time");
	no_disconnect.disconnect = {};
	no_disconnect.disconnect.record(0, 10);
	no_disconnect.disconnect_sum_ns = 0;
	EXPECT_EQ(judged(row_with(4, {no_disconnect})).reason, "repetition 1: disconnects that took no time");
}

TEST(ConnectRow, IsInvalidWhenMoreWouldHaveBeenUnderWayThanThereWereClients) {
	Repetition one = measured(2, 100);
	one.connect_elapsed_ns = 100'000;  // 100 connects of 3 us each: three at once
	EXPECT_EQ(judged(row_with(2, {one})).reason,
		"repetition 1: rate and latency give 3.00 connects under way on average, but the window is 2");
}

// All times were divided by 1.2, or by 2 in a table without histograms.
TEST(ConnectRow, ItsSumsAreExactSoNoMoreIsUnderWayThanThereAreClients) {
	Repetition one = measured(2, 100);
	one.connect_elapsed_ns = 147'000;
	EXPECT_EQ(judged(row_with(2, {one})).reason,
		"repetition 1: rate and latency give 2.04 connects under way on average, but the window is 2");
	one = measured(2, 100);
	one.disconnect_elapsed_ns /= 2;
	const bench::Table table{.rows = {row_with(2, {one})}};
	const auto csv = bench::read_table(bench::to_csv(table, experiment().columns));
	EXPECT_EQ(bench::judge(experiment(), *csv)->front().reason,
		"repetition 1: rate and latency give 4.00 disconnects under way on average, but the window is 2");
}

TEST(ConnectRow, ItsSumsAreThoseOfItsTimes) {
	Repetition one = measured(1, 100);
	one.total_sum_ns /= 2;
	EXPECT_NE(
		judged(row_with(1, {one})).reason.find("total_sum_ns is not the sum of its histogram"), std::string::npos);
	Json absent = row_with(1, {measured(1, 100)});
	absent["repetitions"][0].erase("disconnect_sum_ns");
	EXPECT_EQ(judged(absent).validity, Validity::invalid);
}

TEST(ConnectRow, OfAnEarlierVersionNamesNoCellAndHasNoSums) {
	Json row = row_with(2, {measured(2, 100)});
	Json forged = row;
	forged["repetitions"][0]["cell"] = "3 clients by rdmacm";
	EXPECT_NE(judged(forged).reason.find("it is one of the cell '3 clients by rdmacm'"), std::string::npos);
	for (const char* key : {"cell", "total_sum_ns", "disconnect_sum_ns"}) row["repetitions"][0].erase(key);
	EXPECT_EQ(judged(row).validity, Validity::valid);
	EXPECT_NE(judged(row).reason, "");
	row["repetitions"][0]["connect_elapsed_ns"] = 147'000;
	EXPECT_EQ(judged(row).validity, Validity::invalid);
}

// A loaded machine takes a client off its processor; a short honest row was invalid then.
TEST(ConnectRow, IsInvalidWhenNextToNoneWasUnderWayForASecond) {
	Repetition one = measured(1, 100);
	one.connect_elapsed_ns = 500'000'000;
	EXPECT_EQ(judged(row_with(1, {one})).validity, Validity::suspect);
	one.connect_elapsed_ns = 2'000'000'000;
	EXPECT_EQ(judged(row_with(1, {one})).validity, Validity::invalid);
	EXPECT_NE(judged(row_with(1, {one})).reason.find("1 clients begin the next one"), std::string::npos);
}

TEST(ConnectRow, IsInvalidWhenThePartsDoNotAddUp) {
	Repetition one = measured(1, 100);
	one.parts[0] = {};
	one.parts[0].record(50, 100);
	EXPECT_EQ(judged(row_with(1, {one})).reason,
		"repetition 1: the parts of a connect take 2.55 us together, but a connect takes 3.00 us");
}

// In CSV, which has no histograms, the parts were anything.
TEST(ConnectRow, APartTakesNoLongerThanTheWhole) {
	Repetition slow = measured(1, 10);
	slow.parts[2] = {};
	slow.parts[2].record(3050, 10);
	const auto csv = bench::read_table(bench::to_csv({.rows = {row_with(1, {slow})}}, experiment().columns));
	EXPECT_NE(
		bench::judge(experiment(), *csv)->front().reason.find("queue_pair_p50_us is above p50_us"), std::string::npos)
		<< bench::judge(experiment(), *csv)->front().reason;
}

TEST(ConnectRow, ARepetitionThatFailedSaysWhy) {
	Repetition one{.clients = 1, .count = 100, .failure = "the other process ended"};
	EXPECT_EQ(judged(row_with(1, {one})).validity, Validity::invalid);
	EXPECT_EQ(judged(row_with(1, {one})).reason, "repetition 1: the other process ended");
}

TEST(ConnectRow, ACellWithoutRepetitionsClaimsNothing) {
	EXPECT_EQ(judged(row_of("rdmacm", 4, 10, Json::array())).validity, Validity::not_applicable);
}

}  // namespace
}  // namespace verbena::connect
