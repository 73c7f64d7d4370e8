// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "bench/rcud/fixture.h"
#include "bench/table/table.h"

namespace verbena::rcud {
namespace {

using bench::Json;
using bench::Validity;
using testing_tools::cell;
using testing_tools::judged;
using testing_tools::measured;
using testing_tools::row_with;

TEST(RcudRules, AReceiverWhoseClockJumpedIsSuspect) {
	auto jumped = measured(1.0);
	jumped.delivery.counted_ns += 3'000'000'000;
	EXPECT_EQ(judged(row_with(cell, {jumped})).validity, Validity::suspect);
	EXPECT_NE(judged(row_with(cell, {jumped}))
				  .reason.find("the receiver took 3001 ms, but the sender 1.00 ms: a clock jumped, or waited"),
		std::string::npos);
}

TEST(RcudRules, TheReceiverOfALocalWindowMayTakeLongerExceptWithRdmaWrite) {
	Cell local = cell;
	local.mode = Mode::rc;
	local.window_mode = WindowMode::local;
	auto slow = measured(1.0);
	slow.delivery.counted_ns += 3'000'000'000;
	const auto says_so = [&] {
		return judged(row_with(local, {slow})).reason.find("the receiver took 3001 ms") != std::string::npos;
	};
	EXPECT_FALSE(says_so());
	local.op = Op::write;
	EXPECT_TRUE(says_so());
}

// The receiver's times were multiplied by a thousand, and the other transport won.
TEST(RcudRules, TheReceiverOfALongRunTakesNoLonger) {
	Cell local = cell;
	local.mode = Mode::rc;
	local.window_mode = WindowMode::local;
	const auto judged_with = [&](std::uint64_t messages, std::uint64_t receiver_ms) {
		Repetition run{.iters = messages, .posted = messages, .completed = messages, .sender_ns = messages * 1000};
		run.delivery = {.delivered = messages, .counted = messages - 1, .counted_ns = receiver_ms * 1'000'000};
		run.latency_ns.record(3'000, messages / 61);
		run.rtt_before_ns = run.rtt_after_ns = 110;
		return judged(row_with(local, {run}));
	};
	EXPECT_EQ(judged_with(100'000, 250).reason, "");
	EXPECT_EQ(judged_with(100'000, 251).reason,
		"repetition 1: the receiver took 251 ms, but the sender 100 ms: a clock jumped, or waited");
	EXPECT_EQ(judged_with(99'999, 3000).reason, "") << "a deep queue may hold a part of them";
}

// Every latency was 0, which no window contradicts, and the run took a microsecond.
TEST(RcudRules, ALatencyIsNotZero) {
	auto run = measured(1.0);
	run.latency_ns = {};
	run.latency_ns.record(0, 16);
	const char* reason = "repetition 1: latencies that took no time";
	EXPECT_EQ(judged(row_with(cell, {run})).reason, reason);
	Cell local = cell;
	local.window_mode = WindowMode::local;
	EXPECT_EQ(judged(row_with(local, {run})).reason, reason);
	const auto csv = bench::read_table(bench::to_csv({.rows = {row_with(cell, {run})}}, experiment().columns));
	EXPECT_EQ(bench::judge(experiment(), *csv)->front().reason, reason);
}

// All times were divided by a factor.
TEST(RcudRules, AnAnswerTakesTheRoundTripOfACacheLine) {
	auto run = measured(1.0);
	run.latency_ns = {};
	run.latency_ns.record(13, 16);
	const auto reason = [&](Mode mode, Op op, WindowMode window) {
		Cell of = cell;
		of.mode = mode, of.op = op, of.window_mode = window;
		return judged(row_with(of, {run})).reason;
	};
	const char* quick = "latencies of 13.0 ns, but a cache line takes 110 ns to the other process and back";
	EXPECT_NE(reason(Mode::ud, Op::send, WindowMode::credit).find(quick), std::string::npos);
	EXPECT_NE(reason(Mode::rc, Op::send, WindowMode::local).find(quick), std::string::npos);
	EXPECT_NE(reason(Mode::rc, Op::write, WindowMode::credit).find(quick), std::string::npos);
	EXPECT_EQ(reason(Mode::ud, Op::send, WindowMode::local).find(quick), std::string::npos);
	EXPECT_EQ(reason(Mode::rc, Op::write, WindowMode::local).find(quick), std::string::npos);
}

TEST(RcudRules, CountsThatCannotBeAreInvalid) {
	const auto reason = [](const std::function<void(Repetition&)>& change) {
		auto run = measured(1.0);
		change(run);
		return judged(row_with(cell, {run})).reason;
	};
	EXPECT_EQ(reason([](Repetition& run) { run.delivery.counted = 984; }), "");
	EXPECT_EQ(reason([](Repetition& run) { run.delivery.counted = 983; }),
		"repetition 1: 983 counted of 1000 delivered, but the first poll took at most 16");
	EXPECT_EQ(reason([](Repetition& run) { run.delivery.reordered = 1001; }),
		"repetition 1: 1001 of 1000 messages reordered");
	EXPECT_EQ(reason([](Repetition& run) { run.delivery.duplicated = 1001; }),
		"repetition 1: 1001 of 1000 messages duplicated");
	EXPECT_NE(reason([](Repetition& run) {
		run.delivery.counted_ns = 4994;
	}).find("999 messages in 0.00499 ms are more than 0.2 a nanosecond"),
		std::string::npos);
	EXPECT_NE(reason([](Repetition& run) { run.delivery.counted_ns = 9999; }).find("counted in 10.00 us: too few"),
		std::string::npos);
	EXPECT_EQ(reason([](Repetition& run) { run.delivery.counted_ns = 10'000; }).find("too few"), std::string::npos);
	EXPECT_NE(
		reason([](Repetition& run) { run.sender_ns = 4999; }).find("1000 messages of each sender"), std::string::npos);
	EXPECT_EQ(reason([](Repetition& run) { run.verified = true, run.mops_unverified = 1000; }), "");
	EXPECT_NE(reason([](Repetition& run) {
		run.verified = true, run.mops_unverified = 1001;
	}).find("messages without the check"),
		std::string::npos);
	Cell large = cell;
	large.mode = Mode::rc;
	large.msg = 16384;
	auto quick = measured(1.0);
	quick.delivery.counted_ns = 80'000;
	EXPECT_NE(judged(row_with(large, {quick})).reason.find("bytes in 0.0800 ms are more than 200 a nanosecond"),
		std::string::npos);
}

// Without latencies any rate was valid, although a window needs a round trip.
TEST(RcudRules, AWindowIsAnsweredOnceInARoundTrip) {
	const auto reason_of = [](Mode mode, WindowMode window) {
		Cell of = cell;
		of.mode = mode, of.window_mode = window;
		Repetition run{.iters = 60, .posted = 60, .completed = 60, .sender_ns = 1090};
		run.delivery = {.delivered = 60, .counted = 50, .counted_ns = 10'000};
		run.rtt_before_ns = run.rtt_after_ns = 110;
		return judged(row_with(of, {run})).reason;
	};
	const char* reason = "60 messages in 0.00109 ms, of which 4 were under way, but a cache line takes 110 ns";
	EXPECT_NE(reason_of(Mode::ud, WindowMode::credit).find(reason), std::string::npos);
	EXPECT_NE(reason_of(Mode::rc, WindowMode::local).find(reason), std::string::npos);
	EXPECT_EQ(reason_of(Mode::ud, WindowMode::local).find(reason), std::string::npos);
}

// Rows of two devices were compared.
TEST(RcudRules, OfOneTableHaveOneDeviceAndOneMtu) {
	Cell other = cell;
	other.window = 8;
	const auto reason_beside = [&](const char* device, std::uint32_t mtu) {
		Json list = Json::array();
		auto run = measured(1.0);
		++run.sender_ns, ++run.delivery.counted_ns;
		list.push_back(json_of(other, run));
		const Json second = row_of(other, device, mtu, 1000, std::move(list));
		return bench::judge(experiment(), {.rows = {row_with(cell, {measured(1.0)}), second}})->back();
	};
	EXPECT_EQ(reason_beside("vb_lo", 4096).reason, "");
	EXPECT_EQ(reason_beside("mlx5_7", 4096).reason, "its device is mlx5_7, and that of another row vb_lo");
	EXPECT_EQ(reason_beside("vb_lo", 1024).reason, "its mtu is 1024, and that of another row 4096");
	EXPECT_EQ(reason_beside("vb_lo", 1024).validity, Validity::not_comparable);
	EXPECT_EQ(reason_beside("", 4096).reason, "");
}

// A forger who changes the sender's time of each repetition leaves the latency.
TEST(RcudRules, ARateAboveWindowAndLatencyIsInvalid) {
	auto slow = measured(1.0);
	slow.latency_ns = {};
	for (int i = 0; i < 16; ++i) slow.latency_ns.record(20'000);
	EXPECT_NE(judged(row_with(cell, {slow})).reason.find("messages under way on average, but the window is 4"),
		std::string::npos);
	auto quick = measured(1.0);
	quick.iters = quick.posted = quick.completed = quick.delivery.delivered = 10'000;
	quick.sender_ns *= 10;
	quick.delivery.counted *= 10;
	quick.delivery.counted_ns *= 10;
	quick.latency_ns = {};
	for (int i = 0; i < 163; ++i) quick.latency_ns.record(20);
	EXPECT_NE(judged(row_with(cell, {quick})).reason.find("0.0200 messages under way on average"), std::string::npos);
}

// A forger who changes the receiver's time leaves the sender's.
TEST(RcudRules, AReceiverThatIsFasterThanItsSenderIsSuspect) {
	auto fast = measured(1.0);
	fast.delivery.counted_ns /= 10;
	EXPECT_EQ(judged(row_with(cell, {fast})).validity, Validity::suspect);
	EXPECT_NE(judged(row_with(cell, {fast})).reason.find("the receiver counted 10.0 Mops, but the sender posted 1.00"),
		std::string::npos);
}

TEST(RcudRules, AFewMessagesThatWaitedLongProveNothing) {
	auto disturbed = measured(1.0);
	disturbed.latency_ns = {};
	for (int i = 0; i < 12; ++i) disturbed.latency_ns.record(1000);
	for (int i = 0; i < 4; ++i) disturbed.latency_ns.record(900'000);
	EXPECT_EQ(judged(row_with(cell, {disturbed})).validity, Validity::valid);
}

// A run of a long time, of which one latency in 61 was taken.
Repetition long_run(std::uint64_t latency_ns) {
	Repetition run{.iters = 610'000, .posted = 610'000, .completed = 610'000, .sender_ns = 610'000'000};
	run.delivery = {.delivered = 610'000, .counted = 609'999, .counted_ns = 609'999'000};
	run.latency_ns.record(latency_ns, 10'000);
	return run;
}

// The slow ones were deleted.
TEST(RcudRules, OneLatencyInSixtyOneIsTaken) {
	const bench::Environment by_one{{"settings", "iters 610000, post-list 1, signal-every 1"}},
		by_four{{"settings", "iters 610000, post-list 4, signal-every 1"}};
	EXPECT_EQ(judged(row_with(cell, {long_run(3000)}), by_one).reason, "");
	for (const std::uint64_t kept : {1000, 1, 0}) {
		auto few = long_run(3000);
		few.latency_ns = {};
		if (kept > 0) few.latency_ns.record(3000, kept);
		EXPECT_EQ(judged(row_with(cell, {few}), by_one).reason,
			fmt::format("{} latencies of 610000 messages, but one in 61 is taken", kept));
	}
	auto by_lists = long_run(3000);
	by_lists.latency_ns = {};
	by_lists.latency_ns.record(3000, 9600);
	EXPECT_EQ(judged(row_with(cell, {by_lists}), by_four).reason, "");
	EXPECT_EQ(judged(row_with(cell, {by_lists}), by_one).validity, Validity::invalid);
	Json bare = row_with(cell, {by_lists});
	bare["repetitions"][0].erase("latency_ns");
	EXPECT_EQ(bench::judge(experiment(), {by_one, {bare}, false})->front().validity, Validity::invalid) << "CSV";
}

TEST(RcudRules, NoLatencyIsLongerThanItsRun) {
	auto long_one = measured(1.0);
	long_one.latency_ns.record(1'000'001);
	EXPECT_EQ(judged(row_with(cell, {long_one})).reason, "repetition 1: max_us 1000.001 is longer than the run");
}

TEST(RcudRules, OfManyLatenciesTheMeanIsCloseToTheWindow) {
	EXPECT_EQ(judged(row_with(cell, {long_run(4100)})).reason, "");
	EXPECT_EQ(judged(row_with(cell, {long_run(4600)})).reason,
		"repetition 1: rate and latency give 4.60 messages under way on average, but the window is 4");
}

TEST(RcudRules, ASenderKeepsItsWindowFull) {
	Cell local = cell;
	local.window_mode = WindowMode::local;
	EXPECT_EQ(judged(row_with(local, {long_run(500)})).reason, "");
	EXPECT_EQ(judged(row_with(local, {long_run(40)})).validity, Validity::suspect);
	EXPECT_NE(judged(row_with(local, {long_run(40)}))
				  .reason.find("0.0400 messages under way on average, but the window is 4"),
		std::string::npos);
	Cell written = local;
	written.mode = Mode::rc;
	written.op = Op::write;
	EXPECT_EQ(judged(row_with(written, {long_run(40)})).reason, "") << "it may wait for room";
}

TEST(RcudRules, AReceiverIsNotFasterThanItsSenderForLong) {
	auto fast = long_run(3000);
	fast.delivery.counted_ns = 570'000'000;
	EXPECT_EQ(judged(row_with(cell, {fast})).validity, Validity::suspect);
	auto brief = measured(1.0);
	brief.delivery.counted_ns = 800'000;
	EXPECT_EQ(judged(row_with(cell, {brief})).validity, Validity::valid);
}

}  // namespace
}  // namespace verbena::rcud
