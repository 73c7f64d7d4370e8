// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/rules.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <sstream>

#include "bench/judge/judge.h"
#include "bench/scale/fixture.h"
#include "bench/table/table.h"

namespace verbena::scale {
namespace {

using bench::Json;
using bench::Validity;
using bench::Verdict;
using testing_tools::good_run;

Verdict judged(const Json& row, const bench::Environment& environment = {}) {
	return bench::judge(experiment(), {.environment = environment, .rows = {row}})->front();
}

Verdict judged(const std::function<void(Outcome&)>& change) {
	Outcome run = good_run();
	change(run);
	return judged(testing_tools::row_of({run}));
}

TEST(ScaleRules, AGoodRunIsValid) {
	const Verdict verdict = judged([](Outcome&) {});
	EXPECT_EQ(verdict.validity, Validity::valid);
	EXPECT_EQ(verdict.reason, "");
}

TEST(ScaleRules, TheServersCountsAreThoseOfTheClients) {
	EXPECT_EQ(judged([](Outcome& run) { run.server->peak = run.server->queue_pairs = 3; }).reason,
		"repetition 1: the server had 3 clients at once, but 4 had connected");
	EXPECT_EQ(judged([](Outcome& run) { run.server->peak = run.server->queue_pairs = 5; }).validity, Validity::invalid);
	EXPECT_EQ(judged([](Outcome& run) { run.server->echoed = 4999; }).reason,
		"repetition 1: the server counted 4999 echoes, but the clients verified 5000");
	EXPECT_EQ(judged([](Outcome& run) { run.server->echoed = 5001; }).validity, Validity::invalid);
	EXPECT_EQ(judged([](Outcome& run) { run.server->queue_pairs = 3; }).validity, Validity::invalid);
	EXPECT_EQ(judged([](Outcome& run) { run.server->threads_peak = 1; }).validity, Validity::invalid);
	EXPECT_EQ(judged([](Outcome& run) { run.server->counters.send_posts = 4000; }).validity, Validity::invalid)
		<< "each echo needs a post";
	EXPECT_EQ(judged([](Outcome& run) { run.server->before.resident_bytes = 0; }).validity, Validity::invalid);
	EXPECT_EQ(judged([](Outcome& run) { run.server->connected.resident_bytes = 2 << 20; }).validity, Validity::invalid);
}

TEST(ScaleRules, ARunInWhichAClientFailedIsNeverValid) {
	const Verdict verdict = judged([](Outcome& run) {
		run.good = 3;
		run.failures[static_cast<std::size_t>(Cause::lost)] = 1;
		run.rows[0].cause = Cause::lost;
	});
	EXPECT_EQ(verdict.validity, Validity::suspect);
	EXPECT_EQ(verdict.reason, "repetition 1: 3 of 4 clients succeeded, 1 lost");
}

TEST(ScaleRules, AServerThatCountedMoreThanTheClientsThatBrokeOffIsNoContradiction) {
	EXPECT_EQ(judged([](Outcome& run) {
		run.good = 3;
		run.failures[static_cast<std::size_t>(Cause::lost)] = 1;
		run.server->echoed = 5001;
	}).validity,
		Validity::suspect);
}

TEST(ScaleRules, FailuresThatAreHiddenLeaveTooFewClients) {
	const Verdict verdict = judged([](Outcome& run) { run.good = 3; });
	EXPECT_EQ(verdict.validity, Validity::invalid);
	EXPECT_TRUE(verdict.reason.starts_with("repetition 1: 3 clients succeeded or failed; ")) << verdict.reason;
}

TEST(ScaleRules, LogicalClientsThatTheServerCannotTellApartAreInvalid) {
	const auto with = [](std::uint64_t labels, std::uint64_t queue_pairs) {
		return judged([&](Outcome& run) {
			run.cell.queue_pairs = 2;
			run.server->labels = labels;
			run.server->queue_pairs = queue_pairs;
		}).validity;
	};
	EXPECT_EQ(with(4, 2), Validity::valid);
	EXPECT_EQ(with(3, 2), Validity::invalid);
	EXPECT_EQ(with(4, 4), Validity::invalid);
}

TEST(ScaleRules, LittlesLawHoldsOnBothSides) {
	const auto at_latency = [](std::uint64_t ns) {
		return judged([&](Outcome& run) {
			run.latency = {};
			run.latency.record(ns, 4000);
			run.latency_sum_ns = ns * 4000;
		});
	};
	EXPECT_EQ(at_latency(2'000'000).validity, Validity::valid);
	EXPECT_EQ(at_latency(2'100'000).validity, Validity::invalid) << "the sum is exact";
	EXPECT_EQ(at_latency(2'600'000).reason,
		"repetition 1: rate and latency give 5.20 messages under way on average, but the window is 4");
	EXPECT_EQ(at_latency(1'700'000).validity, Validity::valid);
	EXPECT_EQ(at_latency(1'000'000).reason,
		"repetition 1: rate and latency give 2.00 messages under way on average, but 4 clients do nothing but send and "
		"wait");
	EXPECT_EQ(at_latency(1'000'000).validity, Validity::suspect);
	EXPECT_EQ(at_latency(90'000).validity, Validity::invalid);
	EXPECT_EQ(at_latency(10'000).validity, Validity::invalid);
}

// Clients that were off their processor for most of a short run are late with their messages.
TEST(ScaleRules, AShortRunWithNextToNothingUnderWayIsOnlySuspect) {
	EXPECT_EQ(judged([](Outcome& run) {
		run.cell.seconds = 0.1;
		run.latency = {};
		run.latency.record(10'000, 200);
		run.latency_sum_ns = 2'000'000;
		run.to = {.at = run.from.at + 100'000'000, .echoed = run.from.echoed + 200};
	}).validity,
		Validity::suspect);
}

// The latencies of a run that is shorter than them are few and say little.
TEST(ScaleRules, FewLatenciesThatAreAsLongAsTheRunDoNotBreakTheLaw) {
	EXPECT_EQ(judged([](Outcome& run) {
		run.latency = {};
		run.latency.record(1'500'000'000);
		run.latency_sum_ns = 1'500'000'000;
		run.to.echoed = run.from.echoed + 8;
	}).validity,
		Validity::valid);
}

TEST(ScaleRules, ARateThatWasRaisedInTheRepetitionTooIsSuspect) {
	EXPECT_EQ(judged(testing_tools::row_of({testing_tools::run_at(20'000)})).validity, Validity::suspect);
	EXPECT_EQ(judged([](Outcome& run) { run.to.echoed = run.from.echoed + 12'000; }).validity, Validity::invalid)
		<< "more than all echoes";
	EXPECT_EQ(judged([](Outcome& run) {
		run.to.at = run.from.at + 6'000'000'000;
		run.messages_ns += 4'000'000'000;
	}).reason,
		"repetition 1: the server counted 667 echoes a second, and the clients 2000");
}

// The server's count was raised by 45 %, and the latencies are those of before.
TEST(ScaleRules, ALongRunHasALatencyForEachEchoOfTheServer) {
	const auto reason_at = [](double seconds, std::uint64_t echoes) {
		return judged([&](Outcome& run) {
			run.cell.seconds = seconds;
			run.to.at = run.from.at + static_cast<Nanoseconds>(seconds * 1e9);
			run.latency = {};
			run.latency.record(2'000'000, static_cast<std::uint64_t>(2000 * seconds));
			run.latency_sum_ns = run.latency.count() * 2'000'000;
			run.to.echoed = run.from.echoed + echoes;
		}).reason;
	};
	EXPECT_EQ(reason_at(2, 4400), "");
	EXPECT_EQ(reason_at(2, 4410), "repetition 1: the server counted 2205 echoes a second, and the clients 2000");
	EXPECT_EQ(reason_at(2, 3630), "repetition 1: the server counted 1815 echoes a second, and the clients 2000");
	EXPECT_EQ(reason_at(0.9, 2650), "") << "a short one may differ more";
}

TEST(ScaleRules, NothingOfARunIsLongerThanAllOfIt) {
	EXPECT_EQ(judged([](Outcome& run) { run.messages_ns = 2'499'000'000; }).reason,
		"repetition 1: warm-up and measured time of 2.50 s, but all messages took 2.50 s");
	EXPECT_EQ(judged([](Outcome& run) { run.messages_ns = 2'500'000'000; }).reason, "");
	EXPECT_NE(judged([](Outcome& run) {
		run.latency.record(2'601'000'000);
		run.latency_sum_ns += 2'601'000'000;
	}).reason.find("a latency of 2.60 s, but all messages took 2.60 s"),
		std::string::npos);
	EXPECT_NE(judged([](Outcome& run) { run.cell.warmup_s = 100; }).reason.find("warm-up and measured time of 102 s"),
		std::string::npos);
}

// Every latency was 0, or a thousandth of what it was, and no law contradicted the rate.
TEST(ScaleRules, AnEchoAndAConnectionTakeARoundTripOfACacheLine) {
	const auto reason_of = [](std::uint64_t echo_ns, std::uint64_t connect_ns) {
		return judged([&](Outcome& run) {
			run.round_trip_ns = 100;
			run.cell.rate = 2000;
			run.latency = {};
			run.latency.record(echo_ns, 4000);
			run.latency_sum_ns = 4000 * echo_ns;
			run.connect = {};
			run.connect.record(connect_ns, 4);
			run.connect_sum_ns = 4 * connect_ns;
		}).reason;
	};
	EXPECT_EQ(reason_of(2'000, 10'000), "");
	EXPECT_EQ(reason_of(0, 10'000), "repetition 1: echoes that took no time");
	EXPECT_EQ(reason_of(2'000, 0), "repetition 1: connections that took no time");
	EXPECT_EQ(reason_of(12, 10'000),
		"repetition 1: echoes of 12.0 ns, but a cache line takes 100 ns to the other process and back");
	EXPECT_EQ(reason_of(2'000, 12),
		"repetition 1: connections of 12.0 ns, but a cache line takes 100 ns to the other process and back");
}

TEST(ScaleRules, AFullWindowIsUnderWay) {
	const auto with = [](std::uint32_t window) {
		return judged([&](Outcome& run) {
			run.cell.window = window;
			run.server->counters.send_posts = 5000;
		});
	};
	EXPECT_EQ(with(4).reason, "");
	EXPECT_EQ(with(5).validity, Validity::suspect);
	EXPECT_EQ(with(200).validity, Validity::invalid);
}

TEST(ScaleRules, AllClientsConnectInTheTimeOfEachAndTheirPauses) {
	EXPECT_EQ(judged([](Outcome& run) { run.connecting_ns = 2'100'000'000; }).reason, "");
	EXPECT_EQ(judged([](Outcome& run) { run.connecting_ns = 2'101'000'000; }).reason,
		"repetition 1: the clients connected in 2.10 s, but none took longer than 0.0100 s");
	const auto staggered = [](std::uint32_t clients, double stagger_ms, Nanoseconds took) {
		return judged([&](Outcome& run) {
			run.rows.assign(clients, run.rows[0]);
			run.cell.clients = run.connected = run.good = clients;
			run.cell.stagger_ms = stagger_ms;
			run.connect = {};
			run.connect.record(10'000'000, clients);
			run.connect_sum_ns = 10'000'000ull * clients;
			run.connecting_ns = took;
			run.server->peak = run.server->queue_pairs = clients;
		}).reason.find("but some paused for 0.9 s before") != std::string::npos;
	};
	EXPECT_TRUE(staggered(1000, 100, 899'000'000));
	EXPECT_FALSE(staggered(1000, 100, 900'000'000));
	EXPECT_FALSE(staggered(999, 100, 20'000'000)) << "each process may have fewer than ten";
}

TEST(ScaleRules, CountersThatCannotBeAreInvalid) {
	const auto reason_with = [](const char* name, const Json& value, const bench::Environment& environment = {}) {
		Json repetition = json_of(good_run());
		repetition[name] = value;
		return judged(row_of(columns_of(good_run().cell), {repetition}), environment).reason;
	};
	EXPECT_EQ(reason_with("queue_pairs_max", 3), "repetition 1: the server had 4 queue pairs, but its device has 3");
	EXPECT_NE(
		reason_with("server_switches", 2'600'000'001).find("switches of the server in 2600 ms"), std::string::npos);
	const bench::Environment machine{{"memory_bytes", "2000000"}, {"cores", "2"}};
	EXPECT_EQ(reason_with("kernel_connected", 2'000'000, machine), "");
	for (const char* name : {"kernel_before", "kernel_connected", "resident_peak"})
		EXPECT_EQ(
			reason_with(name, 2'000'001, machine), std::string(name) + " is 2000001 B, but the machine has 2000000 B");
	Json idle = json_of(good_run());
	idle["idle_ns"] = 1'000'000'000;
	idle["idle_cpu_ns"] = 4'500'000'000;
	EXPECT_EQ(judged(row_of(columns_of(good_run().cell), {idle}), machine).reason, "");
	idle["idle_cpu_ns"] = 4'600'000'000;
	EXPECT_EQ(judged(row_of(columns_of(good_run().cell), {idle}), machine).reason,
		"4.60 s of processor time in 1.00 s on 2 cores");
}

// Neither end had any processor time at an offered rate, beside thousands of switches.
TEST(ScaleRules, ASwitchTakesProcessorTime) {
	const auto verdict_of = [](const char* time, const char* switches, std::uint64_t ns, std::uint64_t count) {
		Json repetition = json_of(good_run());
		repetition[time] = ns;
		repetition[switches] = count;
		return judged(row_of(columns_of(good_run().cell), {repetition}));
	};
	for (const auto& [time, switches] :
		{std::pair("clients_cpu_ns", "clients_switches"), std::pair("server_cpu_ns", "server_switches")}) {
		EXPECT_EQ(verdict_of(time, switches, 0, 999).reason, "");
		EXPECT_EQ(verdict_of(time, switches, 200'000, 1000).reason, "");
		EXPECT_EQ(verdict_of(time, switches, 199'999, 1000).reason,
			fmt::format("repetition 1: {} is 199999 ns, but {} is 1000", time, switches));
	}
}

// The memory with all connections was lowered, and the peak was not.
TEST(ScaleRules, MemoryGrowsWhileClientsConnect) {
	const auto reason_of = [](std::uint32_t clients, std::uint64_t connected_kib, std::uint64_t peak_kib) {
		return judged([&](Outcome& run) {
			run.cell.clients = run.connected = run.good = clients;
			run.cell.rate = 2000;
			run.connect = {};
			run.connect.record(10'000'000, clients);
			run.connect_sum_ns = 10'000'000ull * clients;
			run.server->peak = run.server->queue_pairs = clients;
			run.server->connected.resident_bytes = (1 << 20) + (connected_kib << 10);
			run.server->after.peak_resident_bytes = (1 << 20) + (peak_kib << 10);
		}).reason;
	};
	EXPECT_EQ(reason_of(100, 100, 300), "");
	EXPECT_EQ(
		reason_of(100, 100, 301), "the server's memory grew by 308224 B, but by 102400 B while its clients connected");
	EXPECT_EQ(reason_of(99, 100, 400), "") << "few connections say little";
}

// One post of a carrier had all echoes of its clients.
TEST(ScaleRules, APostHasNoMoreEchoesThanAFrame) {
	const auto valid_with = [](std::uint64_t posts) {
		return judged([&](Outcome& run) {
			run.cell.window = 2;
			run.server->counters.send_posts = posts;
		}).validity == Validity::valid;
	};
	EXPECT_TRUE(valid_with(5));
	EXPECT_FALSE(valid_with(4));
}

TEST(ScaleRules, TcpClientsDoNotConnectByRdmaCm) {
	for (const bool in_clear : {false, true}) {
		const auto over = [&](Transport transport) {
			return judged([&](Outcome& run) {
				run.cell.transport = transport;
				run.cell.connect_by = ConnectBy::rdmacm;
				run.cell.in_clear = in_clear;
			});
		};
		EXPECT_EQ(over(Transport::rdma).reason, "");
		EXPECT_EQ(over(Transport::tcp).validity, Validity::invalid);
	}
}

TEST(ScaleRules, AnOfferedRateIsReachedAndNotExceeded) {
	const auto offered = [](double rate) { return judged([&](Outcome& run) { run.cell.rate = rate; }); };
	EXPECT_EQ(offered(2000).validity, Validity::valid);
	EXPECT_EQ(offered(2400).reason, "repetition 1: the rate was not reached: 2000 of 2400 messages a second");
	EXPECT_EQ(offered(1000).validity, Validity::invalid);
}

TEST(ScaleRules, ClientsThatPauseAfterEachEchoHaveNoTimeForMore) {
	EXPECT_EQ(judged([](Outcome& run) { run.cell.think_ms = 1; }).validity, Validity::valid);
	EXPECT_EQ(judged([](Outcome& run) { run.cell.think_ms = 10; }).validity, Validity::invalid);
}

TEST(ScaleRules, UnequalWorkIsSuspect) {
	const auto verdict = judged([](Outcome& run) {
		run.rows[0].echoes = 4700;
		for (int i = 1; i < 4; ++i) run.rows[i].echoes = 100;
	});
	EXPECT_EQ(verdict.reason, "repetition 1: the clients did unequal work: Jain's index is 0.28");
}

TEST(ScaleRules, ATimeThatWasCutShortIsSuspect) {
	const auto after = [](std::uint32_t messages) {
		return judged([&](Outcome& run) {
			run.cell.messages = messages;
			run.to.at = run.from.at + 1'700'000'000;
			run.to.echoed = run.from.echoed + 3400;
		}).reason;
	};
	EXPECT_EQ(after(0), "repetition 1: measured for 1.70 of 2.00 s, because the watching process was late");
	EXPECT_EQ(after(1250), "repetition 1: measured for 1.70 of 2.00 s, because a client had sent all of its messages");
}

TEST(ScaleRules, TimesThatCannotBeAreInvalid) {
	EXPECT_EQ(judged([](Outcome& run) { run.connecting_ns = 5'000'000; }).reason,
		"repetition 1: a client connected in 10 ms, but all of them in 5 ms");
	EXPECT_EQ(judged([](Outcome& run) { run.connect_sum_ns = 36'000'000; }).validity, Validity::invalid);
	EXPECT_EQ(judged([](Outcome& run) { run.latency_sum_ns = 4'000'000'000; }).validity, Validity::invalid);
	EXPECT_EQ(judged([](Outcome& run) { run.connect.record(10'000'000); }).validity, Validity::invalid);
}

TEST(ScaleRules, ARepetitionOfAnotherCellIsInvalid) {
	const Json row = testing_tools::row_of({good_run()});
	for (const auto& [column, value] : {std::pair("clients", Json(400)), std::pair("size", Json(65536)),
			 std::pair("window", Json(4)), std::pair("transport", Json("tcp")), std::pair("connect", Json("rdmacm")),
			 std::pair("engine", Json("uring")), std::pair("without", Json("pooling")), std::pair("rate", Json(2000.0)),
			 std::pair("stalled", Json(100)), std::pair("shared_qps", Json(4)), std::pair("seconds", Json(1.0)),
			 std::pair("system", Json("redis")), std::pair("server", Json("elsewhere"))}) {
		Json forged = row;
		forged[column] = value;
		EXPECT_EQ(judged(forged).validity, Validity::invalid) << column;
	}
}

TEST(ScaleRules, UnknownWordsAreInvalid) {
	for (const char* column : {"system", "transport", "connect", "engine", "without", "server"}) {
		Json row = testing_tools::row_of({good_run()});
		row[column] = row["repetitions"][0]["cell"][column] = "pigeon";
		EXPECT_EQ(judged(row).validity, Validity::invalid) << column;
	}
	Json row = testing_tools::row_of({good_run()});
	row["clients"] = 0;
	EXPECT_EQ(judged(row).validity, Validity::invalid);
}

TEST(ScaleRules, HardwareMovesNoMoreThanItsLink) {
	Outcome run = good_run();
	run.cell.message_bytes = 1 << 20;
	const Json row = testing_tools::row_of({run});
	EXPECT_EQ(judged(row, {{"kind", "software"}, {"link", "Ethernet, 10 Gb/s"}}).validity, Validity::valid);
	EXPECT_EQ(judged(row, {{"kind", "hardware"}, {"link", "Ethernet, 100 Gb/s"}}).validity, Validity::valid);
	EXPECT_EQ(judged(row, {{"kind", "hardware"}, {"link", "Ethernet, 10 Gb/s, processes on one host"}}).reason,
		"16.8 Gb/s of payload is more than the link's 10 Gb/s");
}

TEST(ScaleTableRules, APublishedRowIsNotComparableBecauseOfItsWorkAndItsThreads) {
	std::stringstream text;
	text << std::ifstream("bench/published/connection_scale.csv").rdbuf();
	const auto table = bench::read_table(text.str());
	ASSERT_TRUE(table) << table.error();
	const auto verdicts = bench::judge(experiment(), *table).value();
	ASSERT_EQ(verdicts.size(), 6u);
	for (const Verdict& verdict : verdicts) {
		EXPECT_EQ(verdict.validity, Validity::not_comparable);
		EXPECT_NE(verdict.reason.find("did other work (-n "), std::string::npos) << verdict.reason;
		EXPECT_NE(verdict.reason.find("not all were connected at once"), std::string::npos) << verdict.reason;
	}
	EXPECT_NE(verdicts.back().reason.find("-n 1 -d 50 -t 200"), std::string::npos);
	EXPECT_NE(verdicts.back().reason.find("1244 threads"), std::string::npos);
}

TEST(ScaleRules, AServersProcessorTimeIsThatOfItsWork) {
	const auto with = [](double cpu_s, std::uint64_t echoes, const bench::Environment& environment) {
		Outcome run = good_run();
		run.to.server.cpu_seconds = cpu_s;
		run.to.echoed = run.from.echoed + echoes;
		return bench::judge(experiment(), {environment, {testing_tools::row_of({run})}})->front();
	};
	EXPECT_EQ(with(1, 4000, {{"cores", "2, not pinned"}}).reason, "");
	EXPECT_EQ(with(1e6, 4000, {{"cores", "2, not pinned"}}).reason, "1000000 s of processor time in 2.00 s on 2 cores");
	EXPECT_NE(with(1, 4000, {{"commit", "1234"}}).reason.find("begin with no number of cores"), std::string::npos);
	Outcome busy = good_run();
	for (ClientRow& each : busy.rows) each.echoes = 12'500;
	busy.latency = {};
	busy.latency.record(200'000, 40'000);
	busy.echoes = busy.server->echoed = busy.server->counters.send_posts = 50'000;
	busy.to.echoed = busy.from.echoed + 40'000;
	busy.to.clients.cpu_seconds = 1;
	EXPECT_EQ(judged(testing_tools::row_of({busy})).reason, "");
	busy.to.server.cpu_seconds = 2e-9;
	EXPECT_EQ(judged(testing_tools::row_of({busy})).reason, "0.00000000200 s of processor time for 40000 operations");
}

TEST(ScaleRules, AConnectionNeedsMemory) {
	Outcome run = good_run();
	const auto at = [&](std::uint64_t kib) {
		Json repetition = json_of(run);
		repetition["resident_connected"] = (1 << 20) + (kib << 10);
		return judged(row_of(columns_of(run.cell), {repetition}));
	};
	EXPECT_EQ(at(0).reason, "") << "4 connections may have pages that the server had";
	run = {};
	run = good_run();
	run.cell.clients = run.connected = run.good = 40;
	run.connect = {};
	run.connect.record(10'000'000, 40);
	run.connect_sum_ns = 400'000'000;
	run.server->peak = run.server->queue_pairs = 40;
	EXPECT_EQ(at(64).reason.find("next to nothing"), std::string::npos);
	EXPECT_NE(
		at(4).reason.find("0.100 KiB of memory for each of 40 connections are next to nothing"), std::string::npos)
		<< at(4).reason;
}

TEST(ScaleTableRules, APublishedRowIsJudgedByItsFigures) {
	const auto published = [](const char* success, const char* latency) {
		return judged(
			{{"clients", "10"}, {"success_percent", success}, {"avg_connect_ms", "15"}, {"avg_latency_ms", latency},
				{"messages_per_second", "50000"}, {"peak_memory_mb", "3"}, {"peak_threads", "10"}});
	};
	EXPECT_EQ(published("100", "0.1").validity, Validity::valid);
	EXPECT_EQ(published("100", "0.3").validity, Validity::invalid) << "15 under way of 10 clients";
	EXPECT_EQ(published("101", "0.1").reason, "101 % of the clients succeeded");
}

// Only the clients of one transport, or of one engine, paused.
TEST(ScaleTableRules, RowsOfTwoTransportsAndEnginesHaveTheSameWork) {
	const auto validity_beside = [](const std::function<void(Outcome&)>& change) {
		Outcome other = good_run();
		--other.connect_sum_ns, ++other.messages_ns;
		change(other);
		return bench::judge(
			experiment(), {.rows = {testing_tools::row_of({good_run()}), testing_tools::row_of({other})}})
			->front()
			.validity;
	};
	EXPECT_EQ(validity_beside([](Outcome& run) { run.cell.engine = Engine::uring; }), Validity::valid);
	EXPECT_EQ(validity_beside([](Outcome& run) {
		run.cell.engine = Engine::uring;
		run.cell.think_ms = 1;
	}),
		Validity::not_comparable);
	EXPECT_EQ(validity_beside([](Outcome& run) {
		run.cell.connect_by = ConnectBy::rdmacm;
		run.cell.stagger_ms = 1;
	}),
		Validity::not_comparable);
}

TEST(ScaleTableRules, RowsOfOtherWorkAreNotComparable) {
	Outcome other = good_run();
	other.cell.window = 2;
	--other.connect_sum_ns;
	const auto verdicts =
		bench::judge(experiment(), {.rows = {testing_tools::row_of({good_run()}), testing_tools::row_of({other})}});
	EXPECT_EQ((*verdicts)[0].validity, Validity::not_comparable);
	EXPECT_EQ((*verdicts)[1].validity, Validity::not_comparable);
}

}  // namespace
}  // namespace verbena::scale
