// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

namespace verbena::connect {
namespace {

// A connector whose connections are established at once, in the order of begin().
class Instant : public Connector {
public:
	void begin(std::uint32_t number) override {
		EXPECT_TRUE(under_way.insert(number).second && up.insert(number).second) << number << " is in use";
		most = std::max(most, under_way.size());
		waiting.push_back({.number = number, .began = 1000, .ended = 4000, .parts = {500, 500, 1000, 1000}});
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

TEST(ConnectRun, KeepsAsManyUnderWayAsThereAreClients) {
	for (const std::uint32_t clients : {1u, 16u}) {
		Instant connector;
		Repetition r{.clients = clients, .count = 50};
		connect_all(connector, r);
		EXPECT_EQ(connector.most, clients);
		EXPECT_EQ(r.total.count(), 50u);
		EXPECT_EQ(r.total.min(), 3000u);
		EXPECT_EQ(r.parts[2].max(), 1000u);
	}
}

TEST(ConnectRun, FewerConnectionsThanClientsAreAllUnderWay) {
	Instant connector;
	Repetition r{.clients = 16, .count = 3};
	connect_all(connector, r);
	EXPECT_EQ(connector.up.size(), 3u);
	disconnect_all(connector, r);
	EXPECT_TRUE(connector.up.empty());
	EXPECT_EQ(connector.most, 3u);
	EXPECT_EQ(r.disconnect.count(), 3u);
}

}  // namespace
}  // namespace verbena::connect
