// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/rules.h"

#include <gtest/gtest.h>

#include <functional>

#include "bench/kv/fixture.h"

namespace verbena::kvbench {
namespace {

using bench::Validity;
using testing_tools::good_run;
using testing_tools::judged;
using testing_tools::row_with;

bench::Verdict judged_with(const Cell& cell, const std::function<void(Repetition&)>& change) {
	Repetition run = good_run(cell);
	change(run);
	return judged(row_with(cell, {run}));
}

const Cell cell{.proto = Proto::eager, .window = 4, .iters = 1000};
const Cell rendezvous{.proto = Proto::rndv, .iters = 1000},
	written{.proto = Proto::rndv, .form = Form::write, .iters = 1000};
const Cell fetched{.op = Op::get, .proto = Proto::rndv, .iters = 1000},
	one_sided{.op = Op::get, .proto = Proto::one_sided, .iters = 1000};
const Cell small_by_choice{.size = 4031, .iters = 1000}, large_by_choice{.size = 1 << 20, .iters = 1000};
const Cell rival{.system = System::redis, .transport = Transport::tcp, .iters = 1000};

TEST(KvRules, EveryKindOfRowCanBeValid) {
	for (const Cell& each : {cell, rendezvous, written, fetched, one_sided, rival, Cell{.iters = 1000}}) {
		EXPECT_EQ(judged_with(each, [](Repetition&) {}).reason, "") << cell_name(row_of(each, bench::Json::array()));
		EXPECT_EQ(judged_with(each, [](Repetition&) {}).validity, Validity::valid);
	}
}

TEST(KvRules, ARunWithoutOperationsIsNotValid) {
	const auto verdict = judged_with(cell, [](Repetition& run) {
		run.operations = run.latency_sum_ns = run.messages = run.eager = 0;
		run.latency_ns = {};
	});
	EXPECT_NE(verdict.validity, Validity::valid);
	EXPECT_NE(judged_with(cell, [](Repetition& run) { run.operations = 0; }).validity, Validity::valid);
}

TEST(KvRules, AFailureIsTheReason) {
	const auto verdict = judged_with(cell, [](Repetition& run) {
		run = {};
		run.failure[0] = 'x';
	});
	EXPECT_EQ(verdict.validity, Validity::invalid);
	EXPECT_EQ(verdict.reason, "repetition 1: x");
}

struct Mistake {
	const char* says;
	const Cell& of;
	std::function<void(Repetition&)> make;
};

TEST(KvRules, ARunThatCannotBeTrueIsInvalidAndSaysWhy) {
	const Mistake mistakes[] = {
		{"1 values differ", cell, [](Repetition& run) { run.wrong = 1; }},
		{"1000 latencies of 1001 operations", cell, [](Repetition& run) { run.operations = 1001; }},
		{"1001 operations of 1000", cell, [](Repetition& run) { run.operations = 1001; }},
		{"ended after 999 of 1000", cell, [](Repetition& run) { run.operations = 999; }},
		{"51 operations of the warm-up, not 50", cell, [](Repetition& run) { run.warmup = 51; }},
		{"8.00 operations under way on average, of 4", cell, [](Repetition& run) { run.elapsed_ns /= 2; }},
		{"the latencies add up to", cell, [](Repetition& run) { run.latency_sum_ns /= 2; }},
		{"took no time", cell, [](Repetition& run) { run.elapsed_ns = 0; }},
		{"longer than the run", cell, [](Repetition& run) { run.elapsed_ns = 3000; }},
		{"next to none", cell, [](Repetition& run) { run.elapsed_ns = 400'000'000; }},
		{"3 operations of a client were under way at once, but the window is 4", cell,
			[](Repetition& run) { run.depth_max = 3; }},
		{"5 operations of a client were under way at once", cell, [](Repetition& run) { run.depth_max = 5; }},
		{"2 clients did something, not 1", cell, [](Repetition& run) { run.clients = 2; }},
		{"0 clients did something, not 1", rival, [](Repetition& run) { run.clients = 0; }},
		{"not eager", cell, [](Repetition& run) { run.leased = 1; }},
		{"not all operations used rendezvous: 999 of 1000", rendezvous, [](Repetition& run) { run.leased = 999; }},
		{"1001 rendezvous", rendezvous, [](Repetition& run) { run.leased = 1001; }},
		{"a SET was read", rendezvous, [](Repetition& run) { run.leased = 999, run.reads = 1; }},
		{"1 values were written, not read", rendezvous, [](Repetition& run) { run.leased = 999, run.writes = 1; }},
		{"1 values were read, not written", written, [](Repetition& run) { run.writes = 999, run.leased = 1; }},
		{"a GET was written", fetched, [](Repetition& run) { run.reads = 999, run.writes = 1; }},
		{"GETs were one-sided", fetched, [](Repetition& run) { run.reads = 999, run.one_sided = 1; }},
		{"too few for 1000 operations", cell, [](Repetition& run) { run.messages = 1999; }},
		{"too few for 1000 operations", written, [](Repetition& run) { run.messages = 3999; }},
		{"complete requests of 1000", cell, [](Repetition& run) { run.eager = 999; }},
		{"100001 messages are too many for 1000 operations", cell, [](Repetition& run) { run.messages = 100'001; }},
		{"0 of 1000 values of 1048576 B by rendezvous, but eager_max is 4096", large_by_choice,
			[](Repetition& run) { run.leased = 0, run.eager = 1000; }},
		{"1000 of 1000 values of 4031 B by rendezvous, but eager_max is 4096", small_by_choice,
			[](Repetition& run) { run.leased = 1000, run.eager = 0; }},
		{"operations that took no time", cell,
			[](Repetition& run) {
				run.latency_ns = {};
				run.latency_ns.record(0, 1000);
				run.latency_sum_ns = 0;
			}},
		{"but a cache line takes 110 ns to the other process and back", cell,
			[](Repetition& run) {
				run.latency_ns = {};
				run.latency_ns.record(12, 1000);
				run.latency_sum_ns = 12'000;
				run.elapsed_ns = 3'001;
			}},
		{"1000 operations in 0.00500 ms are more than 0.2 a nanosecond", cell,
			[](Repetition& run) { run.elapsed_ns = 4'999; }},
		{"complete requests of 1000", one_sided, [](Repetition& run) { run.eager = 1; }},
		{"values copied", rendezvous, [](Repetition& run) { run.copied = 1001; }},
	};
	for (const Mistake& each : mistakes) {
		const auto verdict = judged_with(each.of, each.make);
		EXPECT_EQ(verdict.validity, Validity::invalid) << each.says;
		EXPECT_NE(verdict.reason.find(each.says), std::string::npos) << each.says << " / " << verdict.reason;
	}
}

TEST(KvRules, ARunThatNeedsAnExplanationIsSuspect) {
	const Cell few{.proto = Proto::eager, .iters = 99}, long_wait = cell;
	const Mistake mistakes[] = {
		{"2 memory registrations", cell, [](Repetition& run) { run.registrations = 2; }},
		{"1 GETs had to ask by message", one_sided,
			[](Repetition& run) { run.one_sided = 999, run.eager = 1, run.messages = 2; }},
		{"only 99 operations", few,
			[](Repetition& run) {
				run.operations = run.eager = 99;
				run.latency_ns = {};
				run.latency_ns.record(1000, 99);
				run.latency_sum_ns = 99'000;
				run.messages = 198;
			}},
		{"the run was too short", cell, [](Repetition& run) { run.elapsed_ns = 100'000'000; }},
		{"under way on average of 4, few for clients that only wait", long_wait,
			[](Repetition& run) {
				run.latency_ns = {};
				run.latency_ns.record(1'000'000, 1000);
				run.latency_sum_ns = 1'000'000'000;
				run.elapsed_ns = 700'000'000;
			}},
	};
	for (const Mistake& each : mistakes) {
		const auto verdict = judged_with(each.of, each.make);
		EXPECT_EQ(verdict.validity, Validity::suspect) << each.says << " / " << verdict.reason;
		EXPECT_NE(verdict.reason.find(each.says), std::string::npos) << each.says << " / " << verdict.reason;
	}
}

// The window, or the number of clients, of a row was changed: a fortieth of its lanes was busy.
TEST(KvRules, EachLaneHasAnOperationUnderWay) {
	const auto verdict_of = [](std::uint64_t elapsed_ns) {
		return judged_with(cell, [&](Repetition& run) {
			run.latency_ns = {};
			run.latency_ns.record(1'000'000, 1000);
			run.latency_sum_ns = 1'000'000'000;
			run.elapsed_ns = elapsed_ns;
		});
	};
	EXPECT_EQ(verdict_of(600'000'000).reason, "");
	EXPECT_EQ(verdict_of(700'000'000).validity, Validity::suspect);
	EXPECT_EQ(verdict_of(1'300'000'000).validity, Validity::invalid);
	const Cell many{.proto = Proto::eager, .window = 2000, .iters = 1000};
	EXPECT_EQ(judged_with(many, [](Repetition& run) { run.depth_max = 1000, run.elapsed_ns *= 2; }).reason, "")
		<< "fewer operations than lanes";
}

TEST(KvRules, AOneSidedGetIsQuickerThanAnAnswer) {
	const auto reason_of = [](std::uint64_t ns) {
		return judged_with(one_sided, [&](Repetition& run) {
			run.latency_ns = {};
			run.latency_ns.record(ns, 1000);
			run.latency_sum_ns = 1000 * ns;
			run.elapsed_ns = 1000 * ns + 1001;
		}).reason;
	};
	EXPECT_EQ(reason_of(12), "");
	EXPECT_NE(reason_of(0).find("operations that took no time"), std::string::npos);
}

TEST(KvRules, TheStoreTakesNoLargerValue) {
	Cell large = cell;
	large.size = (64u << 20) + 1;
	const auto verdict = judged_with(large, [](Repetition& run) {
		run.latency_ns = {};
		run.latency_ns.record(30'000'000, 1000);
		run.latency_sum_ns = 30'000'000'000;
		run.elapsed_ns = 7'500'000'000;
	});
	EXPECT_NE(verdict.reason.find("values of 67108865 B, but the store takes 67108864 B"), std::string::npos)
		<< verdict.reason;
}

// Each percentile above the median was set to it.
TEST(KvRules, WithoutHistogramsThePercentilesBoundTheSum) {
	const auto verdict_of = [](double max_us) {
		bench::Json repetition = row_with(cell, {good_run(cell)})["repetitions"][0];
		for (const char* each : {"p90_us", "p99_us", "p999_us", "p9999_us", "max_us"}) repetition[each] = max_us;
		repetition["p50_us"] = 3.0;
		repetition.erase("latency_ns");
		bench::Json row = row_of(cell, bench::Json::array({repetition}));
		for (const char* each : {"p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us"})
			row[each] = repetition[each];
		return bench::judge(experiment(), {{}, {row}, false})->front();
	};
	EXPECT_EQ(verdict_of(5).reason, "");
	EXPECT_EQ(verdict_of(3).validity, Validity::invalid);
	EXPECT_TRUE(verdict_of(3).reason.starts_with("repetition 1: a mean of 4.00 us, but p50_us and above give"))
		<< verdict_of(3).reason;
}

TEST(KvRules, ARunThatEndedByItsTimeHasFewerOperations) {
	Cell timed = cell;
	timed.iters = 60'000;
	timed.seconds_max = 0.001;
	EXPECT_EQ(judged_with(timed, [](Repetition&) {}).reason, "");
	EXPECT_EQ(judged_with(timed, [](Repetition& run) { run.elapsed_ns = 999'999; }).validity, Validity::invalid);
	const auto late = judged_with(timed, [](Repetition& run) { run.elapsed_ns = 600'000'000; }).reason;
	EXPECT_NE(late.find("it took 0.600 s, and should have ended after 0.001 s"), late.npos) << late;
}

TEST(KvRules, RepetitionsThatDifferByMoreThanHalfAreSuspect) {
	Repetition slow = good_run(cell);
	slow.elapsed_ns *= 2;
	EXPECT_EQ(judged(row_with(cell, {good_run(cell), slow})).reason, "repetitions differ by 67 % of their median");
}

TEST(KvRules, ARepetitionIsNoCopyOfAnother) {
	bench::Json row = row_with(cell, {good_run(cell), good_run(cell)});
	EXPECT_EQ(judged(row).reason, "");
	row = row_of(cell, bench::Json::array({row["repetitions"][0], row["repetitions"][0]}));
	EXPECT_EQ(judged(row).reason, "repetition 2 is a copy of repetition 1");
}

TEST(KvRules, ARowHasAsManyRepetitionsAsTheOthers) {
	const bench::Json few = row_with(cell, {good_run(cell)}),
					  more = row_with(rendezvous, {good_run(rendezvous), good_run(rendezvous)});
	const auto reason = [&](const bench::Environment& environment) {
		const auto verdicts = bench::judge(experiment(), {environment, {few, more}});
		EXPECT_EQ(verdicts->back().reason, "");
		return verdicts->front().reason;
	};
	EXPECT_EQ(reason({}), "1 repetitions, but other rows have 2");
	EXPECT_EQ(reason({{"unfinished", "1 repetitions were not measured"}}), "1 repetitions, but other rows have 2");
}

TEST(KvRules, WordsAndTheirCombinationsAreKnown) {
	const bench::Json row = row_with(rendezvous, {good_run(rendezvous)});
	const auto invalid_with = [&](const char* column, const bench::Json& value) {
		bench::Json forged = row;
		forged[column] = value;
		return judged(forged).validity == Validity::invalid;
	};
	for (const char* column : {"op", "protocol", "proto", "form", "system", "transport", "varied"})
		EXPECT_TRUE(invalid_with(column, "luck")) << column;
	for (const char* column : {"system", "proto", "transport", "window", "clients", "iters", "warmup", "seconds_max"})
		EXPECT_TRUE(invalid_with(column, nullptr)) << column;
	EXPECT_TRUE(invalid_with("transport", "tcp")) << "rendezvous needs RDMA";
	EXPECT_TRUE(invalid_with("system", "redis")) << "it does not speak RDMA";
	const Cell set_one_sided{.proto = Proto::one_sided, .iters = 1000};
	EXPECT_NE(
		judged(row_with(set_one_sided, {good_run(set_one_sided)})).reason.find("a SET was read"), std::string::npos);
	EXPECT_EQ(judged(row, {{"transport", "tcp"}}).reason, "transport is rdma, but the environment says tcp");
}

TEST(KvRules, HardwareMovesNoMoreThanItsLinkCarries) {
	Cell large = rendezvous;
	large.size = 32 << 10;
	const bench::Json row = row_with(large, {good_run(large)});
	EXPECT_EQ(judged(row, {{"kind", "software"}, {"link", "Ethernet, 100 Gb/s"}}).reason, "");
	EXPECT_EQ(judged(row, {{"kind", "hardware"}, {"link", "Ethernet, 100 Gb/s"}}).reason,
		"262 Gb/s of payload is more than the link's 100 Gb/s");
}

}  // namespace
}  // namespace verbena::kvbench
