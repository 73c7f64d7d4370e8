// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/trials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/scale/rows.h"

namespace verbena::scale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One cell of ten clients in clear text.
Cells one_cell() {
	return {.clients = {10},
		.rates = {0},
		.queue_pairs = {0},
		.stalled = {0},
		.transports = {Transport::rdma},
		.connects = {ConnectBy::tls_psn},
		.engines = {Engine::epoll}};
}

const Protections in_clear{channel::ClearText{}, channel::ClearText{}};
const channel::Protection by_certificate = std::shared_ptr<const channel::TlsContext>();
const Protections authenticated{by_certificate, by_certificate};

std::vector<bench::Json> rows_of(const Cells& cells, const Protections& protections = in_clear) {
	std::vector<bench::Json> rows;
	for (const auto& trial : trials_of(cells, protections, {})) rows.push_back(trial->row(bench::Json::array()));
	return rows;
}

// The values of a column, one for each row.
std::vector<std::string> column(const std::vector<bench::Json>& rows, const char* name) {
	std::vector<std::string> values;
	for (const bench::Json& row : rows) values.push_back(bench::text_of(row.at(name)));
	return values;
}

TEST(ScaleTrials, ACellHasTheWishesOfTheCommandLine) {
	Cells cells = one_cell();
	cells.messages = 7;
	cells.size = 128;
	cells.window = 3;
	cells.handshakes = 9;
	cells.seconds = 1.5;
	cells.warmup_s = 0.25;
	cells.rates = {500};
	cells.stalled = {2};
	cells.queue_pairs = {4};
	const auto rows = rows_of(cells);
	ASSERT_EQ(rows.size(), 1u);
	const bench::Json wanted{{"clients", 10}, {"system", "verbena"}, {"transport", "rdma"}, {"connect", "clear"},
		{"engine", "epoll"}, {"rate", 500.0}, {"size", 128}, {"window", 3}, {"shared_qps", 4}, {"stalled", 2},
		{"messages", 7}, {"think_ms", 0.0}, {"handshakes", 9}, {"warmup_s", 0.25}, {"seconds", 1.5}, {"server", "own"}};
	for (const auto& [name, value] : wanted.items()) EXPECT_EQ(rows[0].at(name), value) << name;
}

TEST(ScaleTrials, TheNumberOfClientsVariesFirstAndTheEngineLast) {
	Cells cells = one_cell();
	cells.clients = {10, 20};
	cells.transports = {Transport::rdma, Transport::tcp};
	EXPECT_THAT(column(rows_of(cells), "clients"), ElementsAre("10", "20", "10", "20"));
	EXPECT_THAT(column(rows_of(cells), "transport"), ElementsAre("rdma", "rdma", "tcp", "tcp"));
	cells.clients = {10};
	cells.transports = {Transport::rdma};
	cells.engines = {Engine::epoll, Engine::threads};
	cells.rates = {0, 100};
	EXPECT_THAT(column(rows_of(cells), "engine"), ElementsAre("epoll", "epoll", "threads", "threads"));
	EXPECT_THAT(column(rows_of(cells), "rate"), ElementsAre("0.0", "100.0", "0.0", "100.0"));
	cells.engines = {Engine::epoll};
	cells.rates = {0};
	cells.stalled = {0, 5};
	cells.queue_pairs = {0, 4};
	EXPECT_THAT(column(rows_of(cells), "stalled"), ElementsAre("0", "0", "5", "5"));
	EXPECT_THAT(column(rows_of(cells), "shared_qps"), ElementsAre("0", "4", "0", "4"));
}

TEST(ScaleTrials, AValueThatStandsTwiceInAListCountsOnce) {
	Cells cells = one_cell();
	cells.clients = {10, 20, 10};
	cells.with_redis = true;
	EXPECT_THAT(column(rows_of(cells), "clients"), ElementsAre("10", "20", "10", "20"));
	EXPECT_THAT(column(rows_of(cells), "system"), ElementsAre("verbena", "verbena", "redis", "redis"));
}

TEST(ScaleTrials, TcpIsLeftOutOfRdmaCmIfItHasAnotherWayToConnect) {
	Cells cells = one_cell();
	cells.transports = {Transport::rdma, Transport::tcp};
	cells.connects = {ConnectBy::tls_psn, ConnectBy::rdmacm};
	const auto both = rows_of(cells, authenticated);
	EXPECT_THAT(column(both, "transport"), ElementsAre("rdma", "rdma", "tcp"));
	EXPECT_THAT(column(both, "connect"), ElementsAre("tls-psn", "rdmacm", "tls-psn"));
	cells.transports = {Transport::tcp};
	cells.connects = {ConnectBy::rdmacm};
	const auto rows = rows_of(cells);
	ASSERT_EQ(rows.size(), 1u);
	EXPECT_EQ(bench::text_of(rows[0].at("reason")), tcp_by_rdmacm);
}

TEST(ScaleTrials, BothWaysToConnectAreMeasuredInClearTextToo) {
	Cells cells = one_cell();
	cells.connects = {ConnectBy::tls_psn, ConnectBy::rdmacm};
	const auto rows = rows_of(cells);
	EXPECT_THAT(column(rows, "connect"), ElementsAre("clear", "rdmacm-clear"));
	EXPECT_THAT(experiment().title(rows[0]), testing::EndsWith("over rdma in clear"));
	EXPECT_THAT(experiment().title(rows[1]), testing::EndsWith("over rdma by rdma_cm in clear"));
}

TEST(ScaleTrials, AThousandRunsHaveSourceAddressesOfTheirOwn) {
	for (std::uint32_t run = 1; run < 1000; ++run)
		ASSERT_GE(first_address_of(run), first_address_of(run - 1) + 16) << "of 10,000 clients each";
	EXPECT_EQ(first_address_of(1000), 0u);
	EXPECT_LT(first_address_of(999), 1u << 16) << "all are 127.0.x.x";
}

TEST(ScaleTrials, ACellThatCannotRunHasItsReason) {
	Cells cells = one_cell();
	cells.engines = {Engine::threads};
	EXPECT_FALSE(rows_of(cells)[0].contains("reason"));
	cells.clients = {engine_threads_max};
	EXPECT_FALSE(rows_of(cells)[0].contains("reason"));
	cells.clients = {engine_threads_max + 1};
	EXPECT_EQ(bench::text_of(rows_of(cells)[0].at("reason")), too_many_threads());
	EXPECT_FALSE(trials_of(cells, in_clear, {})[0]->can_run());
	cells.clients = {10};
	cells.queue_pairs = {4};
	EXPECT_THAT(bench::text_of(rows_of(cells)[0].at("reason")), HasSubstr("has no logical clients"));
}

TEST(ScaleTrials, AnAblationSwitchesOffOneOptimizationAfterTheOther) {
	Cells cells = one_cell();
	cells.ablation = true;
	cells.transports = {Transport::rdma, Transport::tcp};
	EXPECT_THAT(column(rows_of(cells), "without"), ElementsAre("", "coalescing", "pooling", "batched polling", ""));
	cells.engines = {Engine::threads};
	cells.queue_pairs = {4};  // cannot run
	EXPECT_THAT(column(rows_of(cells), "without"), ElementsAre("", ""));
}

TEST(ScaleTrials, CapacityHasFewAndManyClientsOfEachKind) {
	Cells cells = one_cell();
	cells.capacity = true;
	cells.clients = {1000, 20'000, 100};
	cells.rates = {500};
	cells.stalled = {3};
	const auto rows = rows_of(cells, authenticated);
	EXPECT_THAT(column(rows, "clients"),
		ElementsAre("100", "20000", "100", "20000", "100", "20000", "1000", "100000", "10", "2000"));
	EXPECT_THAT(column(rows, "transport"),
		ElementsAre("rdma", "rdma", "tcp", "tcp", "tcp", "tcp", "rdma", "rdma", "rdma", "rdma"));
	EXPECT_THAT(column(rows, "engine"),
		ElementsAre("epoll", "epoll", "epoll", "epoll", "epoll", "epoll", "epoll", "epoll", "threads", "threads"));
	EXPECT_THAT(column(rows, "shared_qps"), ElementsAre("0", "0", "0", "0", "0", "0", "4", "4", "0", "0"));
	EXPECT_THAT(column(rows, "connect"),
		ElementsAre(
			"tls-psn", "tls-psn", "tls-psn", "tls-psn", "clear", "clear", "tls-psn", "tls-psn", "tls-psn", "tls-psn"));
	for (const bench::Json& row : rows) {
		EXPECT_EQ(row.at("rate"), 0.0);
		EXPECT_EQ(row.at("stalled"), 0);
		EXPECT_EQ(row.at("seconds"), 0.0);
		EXPECT_EQ(row.at("warmup_s"), 0.0);
		EXPECT_EQ(row.at("messages"), 10);
	}
	cells.messages = 11;
	EXPECT_EQ(rows_of(cells)[0].at("messages"), 11);
}

TEST(ScaleTrials, RedisHasTheSizeAndNothingElseOfOurs) {
	Cells cells = one_cell();
	cells.with_redis = true;
	cells.size = 100;
	const auto rows = rows_of(cells);
	ASSERT_EQ(rows.size(), 2u);
	EXPECT_EQ(rows[1].at("size"), 100);
	EXPECT_TRUE(rows[1].at("engine").is_null());
	cells.clients = {1'000'000'000};
	EXPECT_THAT(bench::text_of(rows_of(cells)[1].at("reason")), HasSubstr("descriptors"));
}

TEST(ScaleTrials, SettingsAreWrittenIntoTheEnvironment) {
	Cells cells = one_cell();
	EXPECT_EQ(settings_of(cells), "seconds 2, warmup 0.5 s, messages 0, processes 0, handshakes 64, poll 50 us");
	cells.capacity = true;
	EXPECT_THAT(settings_of(cells), testing::StartsWith("capacity, seconds 2"));
}

}  // namespace
}  // namespace verbena::scale
