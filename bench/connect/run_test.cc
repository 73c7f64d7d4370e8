#include "bench/connect/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "bench/connect/rows.h"

namespace verbena::connect {
namespace {

constexpr std::array<std::string_view, 2> part_names{"first", "second"};

// A connector whose connections are established at once, in the order of begin().
class Instant : public Connector {
public:
	std::span<const std::string_view> parts() const override { return part_names; }
	void begin(std::uint32_t number) override {
		EXPECT_TRUE(under_way.insert(number).second && up.insert(number).second) << number << " is in use";
		most = std::max(most, under_way.size());
		waiting.push_back({.number = number, .began = 1000, .ended = 4000, .parts = {1000, 2000}});
	}
	void end(std::uint32_t number) override {
		EXPECT_TRUE(up.erase(number) == 1 && under_way.insert(number).second);
		most = std::max(most, under_way.size());
		waiting.push_back({.number = number, .kind = Report::Kind::disconnected, .began = 1000, .ended = 6000});
	}
	Report next() override {
		const Report report = waiting.front();
		waiting.pop_front();
		under_way.erase(report.number);
		return report;
	}

	std::set<std::uint32_t> under_way, up;
	std::deque<Report> waiting;
	std::size_t most = 0;
};

Repetition measured(std::uint32_t clients, std::uint32_t count) {
	Instant connector;
	Repetition r{.clients = clients, .count = count};
	connect_all(connector, r);
	EXPECT_EQ(connector.up.size(), count);
	disconnect_all(connector, r);
	EXPECT_TRUE(connector.up.empty());
	r.connect_s = r.disconnect_s = 0.01;
	r.account = {.established = count, .disconnected = count};
	return r;
}

TEST(ConnectRun, KeepsAsManyUnderWayAsThereAreClients) {
	for (const std::uint32_t clients : {1u, 16u}) {
		Instant connector;
		Repetition r{.clients = clients, .count = 50};
		connect_all(connector, r);
		EXPECT_EQ(connector.most, clients);
		EXPECT_EQ(r.total_ns.size(), 50u);
		EXPECT_EQ(r.part_ns[1], std::vector<double>(50, 2000.0));
	}
}

TEST(ConnectRun, FewerConnectionsThanClientsAreAllUnderWay) { EXPECT_EQ(measured(16, 3).disconnect_ns.size(), 3u); }

TEST(ConnectQuantile, IsAValueThatWasMeasured) {
	EXPECT_EQ(quantile({30, 10, 20}, 0.5), 20);
	EXPECT_EQ(quantile({30, 10, 20, 40}, 0.5), 20);
	EXPECT_EQ(quantile({30, 10, 20}, 0.99), 30);
	EXPECT_EQ(quantile({30, 10, 20}, 1), 30);
	EXPECT_EQ(quantile({7}, 0.01), 7);
}

TEST(ConnectRow, IsTheMedianOfTheRepetitionsAndTheSumOfTheCounts) {
	std::vector<Repetition> three{measured(1, 100), measured(1, 100), measured(1, 100)};
	three[2].connect_s = 0.02;
	const Json row = row_of("rdmacm", part_names, three);
	EXPECT_DOUBLE_EQ(row["connects_per_s"], 10'000);
	EXPECT_DOUBLE_EQ(row["connects_per_s_low"], 5'000);
	EXPECT_EQ(row["established"], 300);
	EXPECT_DOUBLE_EQ(row["p50_us"], 3);
	EXPECT_DOUBLE_EQ(row["second_p50_us"], 2);
	EXPECT_DOUBLE_EQ(row["disconnect_p50_us"], 5);
	EXPECT_EQ(row["validity"], "valid");
}

TEST(ConnectRow, IsInvalidWhenTheServersCountsDiffer) {
	std::vector<Repetition> one{measured(4, 10)};
	one[0].account.disconnected = 9;
	const Json row = row_of("rdmacm", part_names, one);
	EXPECT_EQ(row["validity"], "invalid");
	EXPECT_EQ(row["reason"], "repetition 1: the server counted 10 established and 9 disconnected connections of 10");
}

TEST(ConnectRow, IsInvalidWhenMoreWouldHaveBeenUnderWayThanThereWereClients) {
	std::vector<Repetition> one{measured(2, 100)};
	one[0].connect_s = 1e-4;  // 100 in 0.1 ms, of 3 us each: three at once
	EXPECT_EQ(row_of("rdmacm", part_names, one)["reason"],
		"repetition 1: 3.0 connects under way on average, but there are 2 clients");
}

TEST(ConnectTable, HasTheSameValuesInEachForm) {
	const std::vector<Repetition> one{measured(1, 10)};
	const Table table{{{"device", "vb_lo"}}, {row_of("rdmacm", part_names, one)}};
	EXPECT_TRUE(to_csv(table).starts_with("experiment,connect,clients,count,connects_per_s,"));
	EXPECT_NE(to_csv(table).find("\nconnect,rdmacm,1,10,1000.0,"), std::string::npos) << to_csv(table);
	EXPECT_NE(to_csv(table).find("# device: vb_lo\n"), std::string::npos);
	const Json json = Json::parse(to_json(table));
	EXPECT_EQ(json["rows"][0]["repetitions"][0]["established"], 10);
	EXPECT_NE(to_markdown(table).find("| rdmacm | 1 | 10 | 1000 |"), std::string::npos) << to_markdown(table);
	EXPECT_EQ(to_markdown(table).find("reason"), std::string::npos) << "all is well";
}

}  // namespace
}  // namespace verbena::connect
