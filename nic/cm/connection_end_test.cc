// SPDX-License-Identifier: Apache-2.0
// Connections end by either program, by both at once, or with the process of the peer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nic/cm/two_ends_fixture.h"

namespace verbena::cm {
namespace {

using namespace testing_tools;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

TEST_F(ConnectionManagers, ARefusalOfADisconnectRequestDisconnects) {
	const CommId id = connect();
	run(ms);
	client.events.clear();
	loses = [](int) { return true; };
	client.manager.disconnect(now, id);
	client.manager.handle_refusal(now, server.gid, client.manager.find(id)->transaction);
	settle();
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::disconnected));
}

TEST_F(ConnectionManagers, BothEndsMayDisconnectAtTheSameTime) {
	const CommId id = connect();
	run(ms);
	client.accepts = server.accepts = false;
	EXPECT_TRUE(client.manager.disconnect(now, id));
	EXPECT_TRUE(server.manager.disconnect(now, at_server()));
	run(now + second);
	EXPECT_EQ(client.count(Kind::disconnected), 1);
	EXPECT_EQ(server.count(Kind::disconnected), 1);
}

TEST_F(ConnectionManagers, APeerThatEndsBeforeTheRtuComesRejectsTheEstablishedEnd) {
	loses = [](int number) { return number == 2; };
	const CommId id = connect();
	run(ms);
	EXPECT_EQ(state(client, id), State::established);
	server.manager.destroy(now, at_server());
	run(now + ms);
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::response, Kind::rejected));
	EXPECT_EQ(state(client, id), State::idle);
}

TEST_F(ConnectionManagers, DestroyNotifiesThePeerAndReportsNothingToItsOwner) {
	const CommId id = connect();
	run(ms);
	client.manager.destroy(now, id);
	run(now + ms);
	EXPECT_EQ(server.kinds().back(), Kind::disconnected);
	EXPECT_EQ(client.count(Kind::disconnected), 0) << "the owner gets no event after destroy()";

	client.accepts = false;
	const CommId second_one = connect();
	run(now + ms);
	client.manager.destroy(now, second_one);  // between REP and RTU
	run(now + ms);
	EXPECT_EQ(server.kinds().back(), Kind::rejected);
}

TEST_F(ConnectionManagers, AWithdrawnRequestCannotBeAccepted) {
	server.accepts = false;
	const CommId id = connect();
	run(ms);
	client.manager.destroy(now, id);
	run(now + ms);
	EXPECT_THAT(server.kinds(), ElementsAre(Kind::request, Kind::unreachable));
	EXPECT_FALSE(server.manager.reply(now, at_server(), {}, 78, {}));
}

TEST_F(ConnectionManagers, DestroyingAnEndedConnectionKeepsTheOriginOfItsSuccessor) {
	server.accepts = false;
	const CommId number{77};
	const Req req{.local = number,
		.service = service,
		.ca_guid = 5,
		.path_mtu = 3,
		.addresses = {client.gid, server.gid, 40'000}};
	const auto receive = [&](const Message& message) {
		server.manager.handle_mad(now, route(server, client), write_message({9, message}));
		settle();
	};
	receive(req);
	const CommId first = at_server();
	ASSERT_TRUE(server.manager.reply(now, first, {}, 78, {}));
	receive(Rtu{number, first, {}});
	receive(Dreq{number, first, {}, {}});
	ASSERT_TRUE(server.manager.disconnect(now, first));
	run(now + second);
	ASSERT_EQ(server.count(Kind::timewait_exit), 1);
	receive(req);
	ASSERT_EQ(server.count(Kind::request), 2);
	server.manager.destroy(now, first);
	receive(req);
	EXPECT_EQ(server.count(Kind::request), 2) << "the repeated request is recognized";
}

TEST_F(ConnectionManagers, AnAnsweredDatagramRequestIsFreedWhenItIsDestroyedLate) {
	EXPECT_TRUE(server.manager.listen(service_of(port_space::udp, 9), wire::Gid{}, &server));
	client.manager.resolve(now, route(client, server), {.service = service_of(port_space::udp, 9)}, &client);
	run(2 * ConnectionManager::patience);
	server.manager.destroy(now, at_server());
	run(now + 2 * ConnectionManager::patience);
	EXPECT_EQ(server.manager.connection_count(), 0u);
}

TEST_F(ConnectionManagers, TheDeathOfAPeerProcessIsReportedOnItsConnections) {
	const CommId up = connect();
	run(ms);
	server.accepts = false;
	const CommId waiting = connect();
	run(now + ms);
	client.manager.fail_carrier(now, &server);
	settle();
	EXPECT_THAT(client.kinds(), UnorderedElementsAre(Kind::response, Kind::disconnected, Kind::rejected));
	EXPECT_EQ(state(client, up), State::timewait);
	EXPECT_EQ(state(client, waiting), State::idle);
}

}  // namespace
}  // namespace verbena::cm
