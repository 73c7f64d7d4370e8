// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/rules.h"

#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "bench/rpc/fixture.h"
#include "bench/rpc/labels.h"
#include "bench/table/histogram.h"
#include "bench/table/table.h"

namespace verbena::rpcbench {
namespace {

using bench::Json;
using bench::Validity;
using bench::Verdict;
using testing_tools::judged;
using testing_tools::over_rdma;
using testing_tools::over_tcp;
using testing_tools::row_with;
using testing_tools::run_of;

using Change = std::function<void(Outcome&)>;

Verdict after(const CellOptions& cell, const Change& change) {
	Outcome run = run_of(cell, 160'000);
	change(run);
	return judged(row_with(cell, {run}));
}
Verdict after(const Change& change) { return after(over_tcp(), change); }

// A row whose repetition was changed in the table; the row's own figures are not compared.
Verdict with(const CellOptions& cell, const char* name, const Json& value) {
	Json repetitions = Json::array({json_of(cell, run_of(cell, 160'000))});
	repetitions[0][name] = value;
	return judged(row_of(cell, std::move(repetitions)));
}

CellOptions without(Behaviour behaviour) {
	CellOptions cell = over_rdma();
	cell.ablation = behaviour;
	cell.without = true;
	return cell;
}

TEST(RpcRules, ThePublishedTablesImpossibleRowsAreFoundAndNoOthers) {
	std::ifstream file("bench/published/rpc_rdma.csv");
	std::stringstream text;
	text << file.rdbuf();
	const auto table = bench::read_table(text.str());
	ASSERT_TRUE(table) << table.error();
	const auto verdicts = bench::judge(experiment(), *table);
	ASSERT_TRUE(verdicts) << verdicts.error();
	std::vector<std::string> product, below_mean;
	for (std::size_t i = 0; i < verdicts->size(); ++i) {
		const auto& [validity, reason] = (*verdicts)[i];
		if (validity == Validity::invalid) product.push_back(title(table->rows[i]));
		else if (validity == Validity::suspect) below_mean.push_back(title(table->rows[i]));
		else EXPECT_EQ(reason, "");
	}
	EXPECT_EQ(verdicts->size(), 30u);
	EXPECT_EQ(product, (std::vector<std::string>{"128B x 64", "128B x 256", "4K x 256", "256K x 256"}));
	EXPECT_EQ(below_mean, (std::vector<std::string>{"8M x 1", "8M x 256"}));
}

TEST(RpcRules, AnswersAreCountedAtBothEnds) {
	EXPECT_EQ(after([](Outcome&) {}).validity, Validity::valid);
	EXPECT_EQ(
		after([](Outcome& run) { run.failed = 1; }).reason, "repetition 1: 1 requests failed or had a wrong answer");
	EXPECT_EQ(after([](Outcome& run) { run.served = run.requests - 1; }).reason,
		"repetition 1: 160000 answers, but the server served only 159999 requests");
	EXPECT_EQ(after([](Outcome& run) { run.callers = 15; }).validity, Validity::invalid);
	EXPECT_EQ(after([](Outcome& run) { run = {.callers = 16, .seconds = 1}; }).reason,
		"repetition 1: no request was answered");
}

TEST(RpcRules, LittlesLawHoldsOnBothSides) {
	const auto latency_of = [](std::uint64_t each_ns) {
		return [each_ns](Outcome& run) {
			run.latency = {};
			run.latency.record(each_ns, run.requests);
			run.latency_sum_us = static_cast<double>(run.requests * each_ns) / 1e3;
		};
	};
	EXPECT_EQ(after(latency_of(100'000)).validity, Validity::valid);
	EXPECT_EQ(after(latency_of(101'000)).validity, Validity::invalid) << "16.2 of 16 under way";
	EXPECT_EQ(after(latency_of(82'000)).validity, Validity::valid);
	EXPECT_EQ(after(latency_of(70'000)).validity, Validity::suspect) << "11.2 of 16 under way";
	EXPECT_EQ(after(latency_of(4'000)).validity, Validity::invalid) << "next to none";
}

// The requests at both ends of the measured time do not count.
TEST(RpcRules, AShortRunOfLongRequestsHasNotToLookBusy) {
	CellOptions cell = over_tcp();
	const auto few = [](Outcome& run) {
		run.requests = 16;
		run.latency = {};
		run.latency.record(500'000'000, 16);
		run.latency_sum_us = 8e6;
	};
	EXPECT_EQ(after(cell, few).validity, Validity::valid);
}

TEST(RpcRules, LatenciesAreThoseOfTheRequests) {
	EXPECT_EQ(after([](Outcome& run) { run.latency.record(100'000); }).reason,
		"repetition 1: 160001 latencies of 160000 requests");
	EXPECT_EQ(after([](Outcome& run) { run.latency_sum_us *= 1.1; }).validity, Validity::invalid);
	EXPECT_EQ(after([](Outcome& run) { run.latency_sum_us *= 0.95; }).validity, Validity::invalid);
}

TEST(RpcRules, WithoutAHistogramPercentilesBoundTheMean) {
	const auto table = [&](const Change& change) {
		Outcome run = run_of(over_tcp(), 160'000);
		change(run);
		const std::string csv = to_csv({{}, {row_with(over_tcp(), {run})}}, experiment().columns);
		return bench::judge(experiment(), *bench::read_table(csv))->front();
	};
	EXPECT_EQ(table([](Outcome&) {}).reason, "");
	EXPECT_EQ(table([](Outcome& run) { run.latency_sum_us *= 1.1; }).validity, Validity::invalid);
	EXPECT_EQ(table([](Outcome& run) { run.latency_sum_us *= 0.4; }).validity, Validity::invalid);
	Json bare = row_with(over_tcp(), {run_of(over_tcp(), 160'000)});
	bare["repetitions"][0].erase("latency_ns");
	EXPECT_EQ(judged(bare).validity, Validity::invalid) << "JSON has histograms";
}

TEST(RpcRules, TheMeasuredTimeIsThatOfTheSettings) {
	EXPECT_EQ(with(over_tcp(), "seconds", 0.5).validity, Validity::invalid);
	EXPECT_EQ(with(over_tcp(), "seconds", 0).validity, Validity::invalid);
	EXPECT_EQ(with(over_tcp(), "qps", 170'000).reason, "repetition 1: qps 170000 is not requests / seconds");
	const auto late = [](Outcome& run) {
		run.seconds = 3;
		run.requests *= 3;
		run.served = run.frames = run.messages = run.requests;
		run.latency_sum_us *= 3;
		run.latency = {};
		run.latency.record(100'000, run.requests);
	};
	EXPECT_EQ(after(late).reason, "repetition 1: 3.00 s measured instead of 1.00 s");
	EXPECT_EQ(after(late).validity, Validity::suspect);
}

TEST(RpcRules, ARepetitionIsOneOfItsCell) {
	Json row = row_with(over_tcp(), {run_of(over_tcp(), 160'000)});
	row["mode"] = "echo";
	EXPECT_EQ(judged(row).reason, "repetition 1: it is one of the cell '4K x 16 over tcp'");
	EXPECT_EQ(with(over_tcp(), "payload_bytes", 1u).validity, Validity::invalid);
	EXPECT_EQ(with(over_tcp(), "connections", 2u).validity, Validity::invalid);
	EXPECT_EQ(with(over_tcp(), "rdma_frames", 1u).validity, Validity::invalid);
	EXPECT_EQ(with(over_rdma(), "rdma_frames", 0u).validity, Validity::invalid);
	EXPECT_EQ(with(over_tcp(), "frames", 1000u).validity, Validity::invalid);
	EXPECT_EQ(with(over_tcp(), "messages", 0u).validity, Validity::invalid);
	EXPECT_EQ(with(over_tcp(), "pinned_kib", 256u).validity, Validity::invalid);
	EXPECT_EQ(with(over_rdma(), "pinned_kib", 0u).validity, Validity::invalid);
	CellOptions other = over_tcp();
	other.system = System::capnp;
	EXPECT_EQ(with(other, "frames", 160'000u).validity, Validity::invalid);
}

TEST(RpcRules, ABehaviourWasOffInARowWithoutIt) {
	const std::pair<Behaviour, Change> on[] = {
		{Behaviour::inline_data, [](Outcome& run) { run.rdma.frames_inline = 1; }},
		{Behaviour::coalescing, [](Outcome& run) { run.messages /= 2; }},
		{Behaviour::send_queue, [](Outcome& run) { run.rdma.parts_most = 2; }},
		{Behaviour::pool, [](Outcome& run) { run.rdma.registrations = 7; }},
		{Behaviour::connection_pool, [](Outcome& run) { run.connections = 1; }},
	};
	for (const auto& [behaviour, change] : on) {
		const CellOptions cell = without(behaviour);
		Outcome run = run_of(cell, 160'000);
		if (behaviour == Behaviour::connection_pool) run.connections = run.requests + 1;
		EXPECT_EQ(judged(row_with(cell, {run})).reason, "") << name_of(behaviour);
		change(run);
		EXPECT_EQ(judged(row_with(cell, {run})).reason,
			"repetition 1: " + std::string(name_of(behaviour)) + " was on in a row without it");
	}
}

TEST(RpcRules, WordsAreKnownAndFitEachOther) {
	const std::pair<const char*, const char*> wrong[] = {{"system", "brpc"}, {"transport", "udp"}, {"mode", "both"},
		{"recv_mode", "shared"}, {"memory", "huge"}, {"ablation", "luck"}, {"without", "pool"},
		{"request_size", "4096B"}, {"recv_mode", ""}, {"system", "grpc"}, {"system", ""}, {"transport", ""}};
	for (const auto& [column, word] : wrong) {
		CellOptions cell = over_rdma();
		Json row = row_with(cell, {run_of(cell, 160'000)});
		row[column] = word;
		row["repetitions"][0]["cell"] = title(row);
		EXPECT_EQ(judged(row).validity, Validity::invalid) << column << ' ' << word;
	}
	CellOptions cell = over_tcp();
	cell.ablation = Behaviour::inline_data;
	EXPECT_EQ(judged(row_with(cell, {run_of(cell, 160'000)})).reason, "inline exists only over RDMA");
	cell = over_tcp();
	cell.connections = 17;
	EXPECT_EQ(judged(row_with(cell, {run_of(cell, 160'000)})).reason, "there are more connections than callers");
}

TEST(RpcRules, RepetitionsAreDifferentAndAsManyAsThoseOfOtherRows) {
	const Outcome run = run_of(over_tcp(), 160'000), other = run_of(over_tcp(), 100'000);
	EXPECT_EQ(judged(row_with(over_tcp(), {run, other, run})).reason, "repetition 3 is a copy of repetition 1");
	CellOptions echo = over_tcp();
	echo.mode = Mode::echo;
	bench::Table table;
	table.rows.push_back(row_with(over_tcp(), {run, other}));
	table.rows.push_back(row_with(echo, {run_of(echo, 80'000)}));
	EXPECT_EQ((*bench::judge(experiment(), table))[1].reason, "1 repetitions, but other rows have 2");
	table.environment.emplace_back("unfinished", "1 repetitions were not measured");
	EXPECT_EQ((*bench::judge(experiment(), table))[1].validity, Validity::suspect);
	Json hidden = row_of(over_tcp(), Json::array());
	for (const bench::Column& column : experiment().columns)
		if (!hidden.contains(column.name)) hidden[std::string(column.name)] = nullptr;
	EXPECT_EQ(judged(hidden).validity, Validity::invalid) << "not n/a";
}

TEST(RpcRules, TheMachineBoundsALinkAndProcessorTime) {
	const Json row = row_with(over_rdma(), {run_of(over_rdma(), 160'000)});
	EXPECT_EQ(judged(row, {{"kind", "hardware"}, {"link", "Ethernet, 10 Gb/s"}}).reason, "");
	EXPECT_EQ(judged(row, {{"kind", "hardware"}, {"link", "Ethernet, 5 Gb/s"}}).validity, Validity::invalid);
	const Json tcp = row_with(over_tcp(), {run_of(over_tcp(), 160'000)});
	EXPECT_EQ(judged(tcp, {{"kind", "hardware"}, {"link", "Ethernet, 5 Gb/s"}}).reason, "") << "not by this link";
	EXPECT_EQ(judged(row, {{"cores", "2, not pinned"}}).reason, "");
	Json busy = row_with(over_rdma(), {[] {
		Outcome run = run_of(over_rdma(), 160'000);
		run.client_cpu_s = 5;
		return run;
	}()});
	EXPECT_EQ(judged(busy, {{"cores", "2, not pinned"}}).reason,
		"5.00 s of processor time in 1.00 s on 2 cores; 5.30 s of processor time in 1.00 s on 2 cores");
	EXPECT_EQ(judged(busy, {{"commit", "1234"}, {"cores", "not pinned"}}).reason,
		"the environment's cores 'not pinned' begin with no number of cores");
	Json idle = row_with(over_rdma(), {[] {
		Outcome run = run_of(over_rdma(), 160'000);
		run.client_cpu_s = run.server_cpu_s = 0;
		return run;
	}()});
	EXPECT_EQ(judged(idle).reason, "0 s of processor time for 160000 operations");
}

// One end alone had no processor time.
TEST(RpcRules, EachEndNeedsProcessorTime) {
	for (const char* name : {"client_cpu_s", "server_cpu_s"}) {
		EXPECT_EQ(with(over_rdma(), name, 0).reason, "0 s of processor time for 160000 operations") << name;
		EXPECT_EQ(with(over_rdma(), name, 0.0032).reason, "") << name;
	}
}

// The two rows of a pair exchanged their names, and the claim about the behaviour its verdict.
TEST(RpcRules, ARowWithABehaviourShowsIt) {
	const auto reason_with = [](Behaviour behaviour, std::uint32_t size, std::uint32_t callers, const Change& change) {
		CellOptions cell = over_rdma();
		cell.ablation = behaviour;
		cell.size = size;
		cell.concurrency = callers;
		return after(cell, [&](Outcome& run) {
			if (callers == 1) run.messages = run.frames;
			change(run);
		}).reason;
	};
	const auto nothing = [](Outcome&) {};
	EXPECT_EQ(reason_with(Behaviour::connection_pool, 128, 16, nothing), "");
	EXPECT_EQ(reason_with(Behaviour::connection_pool, 128, 16, [](Outcome& run) { run.connections = 16; }), "");
	EXPECT_EQ(reason_with(Behaviour::connection_pool, 128, 16, [](Outcome& run) { run.connections = 17; }),
		"repetition 1: connection-pool was off in a row with it");
	EXPECT_EQ(reason_with(Behaviour::pool, 128, 16, [](Outcome& run) { run.rdma.registrations = 79'999; }), "");
	EXPECT_EQ(reason_with(Behaviour::pool, 128, 16, [](Outcome& run) { run.rdma.registrations = 80'000; }),
		"repetition 1: pool was off in a row with it");
	const auto each_alone = [](Outcome& run) { run.messages = run.frames; };
	EXPECT_EQ(reason_with(Behaviour::coalescing, 128, 16, nothing), "");
	EXPECT_EQ(
		reason_with(Behaviour::coalescing, 128, 16, each_alone), "repetition 1: coalescing was off in a row with it");
	EXPECT_EQ(reason_with(Behaviour::coalescing, 128, 10, each_alone), "") << "few callers may meet no other";
	EXPECT_EQ(reason_with(Behaviour::coalescing, 4096, 16, each_alone), "");
	const auto not_inline = [](Outcome& run) { run.rdma.frames_inline = run.rdma.frames * 9 / 10; };
	EXPECT_EQ(reason_with(Behaviour::inline_data, 128, 1, nothing), "");
	EXPECT_EQ(reason_with(Behaviour::inline_data, 128, 1, not_inline), "repetition 1: inline was off in a row with it");
	EXPECT_EQ(reason_with(Behaviour::inline_data, 128, 2, not_inline), "");
	EXPECT_EQ(reason_with(Behaviour::inline_data, 4096, 1, not_inline), "");
	EXPECT_EQ(reason_with(Behaviour::send_queue, 128, 1, nothing), "");
}

TEST(RpcRules, NoServerAcceptsAMillionConnectionsASecond) {
	CellOptions cell = without(Behaviour::connection_pool);
	const auto reason_with = [&](std::uint64_t connections) {
		return after(cell, [&](Outcome& run) { run.connections = connections; }).reason;
	};
	EXPECT_EQ(reason_with(1'100'000), "");
	EXPECT_EQ(reason_with(1'100'001), "repetition 1: the server accepted 1100001 connections");
}

TEST(RpcRules, CountersThatCannotBeAreInvalid) {
	EXPECT_EQ(with(over_rdma(), "messages", 10'004).reason, "");
	EXPECT_EQ(
		with(over_rdma(), "messages", 10'003).reason, "repetition 1: 160050 frames of 16 callers in 10003 messages");
	EXPECT_EQ(with(over_rdma(), "rdma_frames", 80'024).validity, Validity::invalid) << "fewer than messages";
	EXPECT_EQ(with(over_rdma(), "served", 160'051).reason, "repetition 1: 160051 requests in 160050 frames");
	EXPECT_EQ(
		with(over_rdma(), "pinned_kib", 3.9).reason, "repetition 1: a connection over RDMA without pinned memory");
	EXPECT_EQ(with(over_rdma(), "pinned_kib", 4).reason, "");
	for (const char* name : {"registrations", "parts_most"})
		EXPECT_NE(
			with(over_rdma(), name, 1'000'000'001).reason.find("are more than 1 a nanosecond"), std::string::npos);
}

// All times, and the number of requests, were those of a machine that is a thousand times faster.
TEST(RpcRules, AnAnswerTakesTheRoundTripOfACacheLine) {
	const auto verdict = after([](Outcome& run) {
		run.requests = 16'000'000;
		run.served = run.frames = run.messages = run.requests;
		run.callers = 16;
		run.latency = {};
		run.latency.record(12, run.requests);
		run.latency_sum_us = 192'000;
	});
	EXPECT_NE(verdict.reason.find("requests of 12.0 ns, but a cache line takes 110 ns"), std::string::npos)
		<< verdict.reason;
}

// All times were divided by 1.2.
TEST(RpcRules, NoMoreRequestsAreUnderWayThanThereAreCallers) {
	EXPECT_EQ(after([](Outcome& run) { run.seconds /= 1.001; }).reason,
		"repetition 1: rate and latency give 16.0 requests under way on average, but the window is 16");
}

Json published(const char* gigabits, const char* p90, const char* p99, const char* qps) {
	return {{"request_size", "4K"}, {"concurrency", "16"}, {"gigabits_per_second", gigabits}, {"p90_us", p90},
		{"p99_us", p99}, {"qps", qps}};
}

TEST(RpcRules, APublishedRowIsJudgedByItsFigures) {
	EXPECT_EQ(judged(published("5.24", "110", "120", "160000")).reason, "");
	EXPECT_EQ(judged(published("5.40", "110", "120", "160000")).validity, Validity::invalid);
	EXPECT_EQ(judged(published("0.05", "11000", "12000", "1600")).reason, "") << "within the rounding";
	EXPECT_EQ(judged(published("5.24", "90", "120", "160000")).validity, Validity::suspect);
	EXPECT_EQ(judged(published("5.24", "130", "120", "160000")).reason, "p99_us is below p90_us");
	EXPECT_EQ(judged(published("5.24", "2000", "2000", "160000")).validity, Validity::invalid) << "32 under way";
	EXPECT_EQ(judged(published("0", "110", "120", "0")).reason, "there is no rate");
	EXPECT_EQ(judged(published("n/a", "n/a", "n/a", "n/a")).validity, Validity::not_applicable);
}

}  // namespace
}  // namespace verbena::rpcbench
