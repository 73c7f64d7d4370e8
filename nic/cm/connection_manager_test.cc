// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nic/cm/two_ends_fixture.h"

namespace verbena::cm {
namespace {

using namespace testing_tools;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST_F(ConnectionManagers, ConnectAndEnd) {
	const CommId id = connect();
	run(ms);
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::response));
	EXPECT_THAT(server.kinds(), ElementsAre(Kind::request, Kind::established));
	EXPECT_EQ(state(client, id), State::established);
	const auto& req = std::get<Req>(server.events[0].message);
	EXPECT_EQ(server.events[0].listener, &server);
	EXPECT_EQ(req.qpn.value, 0x1234u);
	EXPECT_EQ(std::memcmp(req.data.bytes().data(), "hello", 6), 0);
	EXPECT_EQ(client.manager.find(id)->other.qpn.value, 0x4321u);
	EXPECT_EQ(client.manager.find(id)->other.starting_psn.value, 6u);

	EXPECT_TRUE(client.manager.disconnect(now, id));
	run(now + ms);
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::response, Kind::disconnected));
	EXPECT_THAT(server.kinds(), ElementsAre(Kind::request, Kind::established, Kind::disconnected));
	run(now + second);
	EXPECT_EQ(client.kinds().back(), Kind::timewait_exit);
	EXPECT_EQ(server.kinds().back(), Kind::timewait_exit);
	EXPECT_EQ(sent, 5) << "REQ REP RTU DREQ DREP";
}

TEST_F(ConnectionManagers, AnySingleLostMessageIsRecovered) {
	for (int lost = 0; lost < 5; ++lost) {
		client.events.clear();
		server.events.clear();
		sent = 0;
		loses = [lost](int number) { return number == lost; };
		const CommId id = connect();
		run(now + second);
		EXPECT_EQ(state(client, id), State::established) << lost;
		EXPECT_TRUE(client.manager.disconnect(now, id));
		run(now + 2 * second);
		EXPECT_THAT(client.kinds(), ElementsAre(Kind::response, Kind::disconnected, Kind::timewait_exit)) << lost;
		EXPECT_THAT(
			server.kinds(), ElementsAre(Kind::request, Kind::established, Kind::disconnected, Kind::timewait_exit))
			<< lost;
	}
}

TEST_F(ConnectionManagers, ManyConnectionsOverABadWireAreEachMadeAndEndedOnce) {
	for (std::uint64_t seed = 1; seed <= 20; ++seed) {
		random = Random(seed);
		client.events.clear();
		server.events.clear();
		loses = [this](int) { return random.chance(0.2); };
		duplicate = 0.2;
		jitter = 100 * ms;
		std::vector<CommId> ids;
		for (int i = 0; i < 50; ++i) ids.push_back(connect());
		run(now + 60 * second);
		EXPECT_EQ(client.count(Kind::response), 50) << seed;
		EXPECT_EQ(server.count(Kind::request), 50) << seed;
		EXPECT_EQ(server.count(Kind::established), 50) << seed;
		for (const CommId id : ids) EXPECT_TRUE(client.manager.disconnect(now, id));
		run(now + 60 * second);
		EXPECT_EQ(client.count(Kind::disconnected), 50) << seed;
		EXPECT_EQ(server.count(Kind::disconnected), 50) << seed;
		for (End* end : {&client, &server})
			for (const Event& event : end->events) end->manager.destroy(now, event.connection);
		run(now + 60 * second);
		EXPECT_EQ(client.manager.connection_count() + server.manager.connection_count(), 0u) << seed;
	}
}

TEST_F(ConnectionManagers, ARequestForAServiceWithoutListenerIsRejected) {
	connect(service_of(port_space::tcp, 1));
	run(ms);
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::rejected));
	EXPECT_EQ(client.events[0].status, reject_reason::invalid_service);
	EXPECT_THAT(server.kinds(), IsEmpty());
}

// perftest -R: the client connects while the server makes its second listener.

TEST_F(ConnectionManagers, ARequestThatComesJustBeforeTheListenerIsRepeatedAndAccepted) {
	const ServiceId late = service_of(port_space::tcp, 1), late_datagram = service_of(port_space::udp, 1);
	const CommId id = connect(late, 100 * ms);
	client.manager.resolve(
		now, route(client, server), {.service = late_datagram, .service_patience = 100 * ms}, &client);
	run(90 * ms);
	EXPECT_THAT(client.kinds(), IsEmpty());
	EXPECT_TRUE(server.manager.listen(late, wire::Gid{}, &server));
	EXPECT_TRUE(server.manager.listen(late_datagram, wire::Gid{}, &server));
	run(now + 20 * ms);
	EXPECT_THAT(client.kinds(), UnorderedElementsAre(Kind::response, Kind::datagram_response));
	EXPECT_EQ(client.count(Kind::datagram_response), 1);
	EXPECT_EQ(state(client, id), State::established);
	EXPECT_EQ(server.count(Kind::request), 1);
}

TEST_F(ConnectionManagers, ARequestThatIsRepeatedInVainIsRejectedAfterItsPatience) {
	connect(service_of(port_space::tcp, 1), 100 * ms);
	client.manager.resolve(
		now, route(client, server), {.service = service_of(port_space::udp, 1), .service_patience = 100 * ms}, &client);
	run(99 * ms);
	EXPECT_THAT(client.kinds(), IsEmpty());
	run(120 * ms);
	ASSERT_THAT(client.kinds(), UnorderedElementsAre(Kind::rejected, Kind::datagram_response));
	for (const Event& event : client.events)
		EXPECT_EQ(event.status,
			event.kind == Kind::rejected ? int{reject_reason::invalid_service} : int{sidr_status::unsupported});
	EXPECT_LT(lookups, 30) << "about a dozen for each request";
}

TEST_F(ConnectionManagers, ARequestForAServiceThatNoProcessOwnsYetIsSentWhenThereIsAnOwner) {
	service_has_owner = false;
	Route nowhere = route(client, server);
	nowhere.carrier = nullptr;
	const ConnectionManager::Request request{
		.service = service, .addresses = {client.gid, server.gid, 40'000}, .path_mtu = 3, .service_patience = 100 * ms};
	const CommId id = client.manager.connect(now, nowhere, request, &client);
	run(50 * ms);
	EXPECT_EQ(sent, 0);
	EXPECT_THAT(client.kinds(), IsEmpty());
	service_has_owner = true;
	run(now + 20 * ms);
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::response));
	EXPECT_EQ(state(client, id), State::established);
}

TEST_F(ConnectionManagers, ARequestThatComesBeforeTheFirstProcessOfItsHostIsRepeated) {
	loses = [](int number) { return number == 0; };
	const CommId id = connect(service, 100 * ms);
	run(ms);
	client.manager.handle_refusal(now, server.gid, client.manager.find(id)->transaction);
	run(now + 10 * ms);
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::response));
}

TEST_F(ConnectionManagers, ARefusedRequestWaitsForItsLeastNumberOfAttemptsOnALoadedMachine) {
	connect(service_of(port_space::tcp, 1), 100 * ms);
	settle();
	// The process runs every 60 ms only, so 100 ms are over after the second attempt.
	int attempts = 0;
	while (client.count(Kind::rejected) == 0 && attempts < 100) {
		now += 60 * ms;
		while (!on_the_way.empty()) {
			const auto deliver = on_the_way.begin()->second;
			on_the_way.erase(on_the_way.begin());
			deliver();
			settle();
		}
		client.manager.handle_timeouts(now);
		settle();
		attempts = lookups + 1;
	}
	EXPECT_EQ(attempts, static_cast<int>(ConnectionManager::service_refusals_min));
}

TEST_F(ConnectionManagers, ARequestThatWaitsForAListenerCanBeDestroyed) {
	const CommId id = connect(service_of(port_space::tcp, 1), 100 * ms);
	run(50 * ms);
	ASSERT_EQ(state(client, id), State::awaits_service);
	EXPECT_FALSE(client.manager.disconnect(now, id));
	client.manager.destroy(now, id);
	EXPECT_EQ(client.manager.connection_count(), 0u);
	const int before = sent;
	run(now + second);
	EXPECT_EQ(sent, before) << "there is nothing to withdraw";
	EXPECT_THAT(client.kinds(), IsEmpty());
}

TEST_F(ConnectionManagers, ARejectCarriesTheProgramsReasonAndData) {
	server.accepts = false;
	connect();
	run(ms);
	EXPECT_TRUE(server.manager.reject(now, at_server(), reject_reason::consumer, std::as_bytes(std::span("no"))));
	run(now + ms);
	ASSERT_THAT(client.kinds(), ElementsAre(Kind::rejected));
	EXPECT_EQ(client.events[0].status, reject_reason::consumer);
	EXPECT_EQ(std::memcmp(std::get<Rej>(client.events[0].message).data.bytes().data(), "no", 3), 0);
}

TEST_F(ConnectionManagers, APeerThatNeverAnswersIsReportedUnreachableInTime) {
	loses = [](int) { return true; };
	connect();
	run(ConnectionManager::patience - ms);
	EXPECT_THAT(client.kinds(), IsEmpty());
	run(ConnectionManager::patience + ConnectionManager::longest_interval);
	ASSERT_THAT(client.kinds(), ElementsAre(Kind::unreachable));
	EXPECT_EQ(client.events[0].status, -ETIMEDOUT);
}

TEST_F(ConnectionManagers, ARefusalFailsAllRequestsThatWaitForTheHostAndNothingElse) {
	const CommId up = connect();
	run(ms);
	ASSERT_EQ(state(client, up), State::established);
	client.events.clear();
	loses = [](int) { return true; };
	const CommId first = connect(), second = connect();
	const CommId datagram =
		client.manager.resolve(now, route(client, server), {.service = service_of(port_space::udp, 7)}, &client);
	End elsewhere(13, 5);
	elsewhere.gid[15] = 3;
	const CommId other = client.manager.connect(now, route(client, elsewhere), {.service = service}, &client);
	run(now + ms);

	client.manager.handle_refusal(now, elsewhere.gid, client.manager.find(first)->transaction);
	client.manager.handle_refusal(now, server.gid, client.manager.find(first)->transaction + 1);
	client.manager.handle_refusal(now, server.gid, client.manager.find(up)->transaction);
	settle();
	EXPECT_THAT(client.kinds(), IsEmpty()) << "forged, or about a request that has its answer";

	client.manager.handle_refusal(now, server.gid, client.manager.find(first)->transaction);
	settle();
	EXPECT_THAT(client.kinds(), UnorderedElementsAre(Kind::rejected, Kind::rejected, Kind::datagram_response));
	for (const Event& event : client.events)
		EXPECT_EQ(event.status,
			event.kind == Kind::rejected ? int{reject_reason::invalid_service} : int{sidr_status::unsupported});
	EXPECT_EQ(state(client, up), State::established);
	EXPECT_EQ(state(client, other), State::req_sent);
	for (const CommId id : {first, second, datagram}) EXPECT_EQ(state(client, id), State::idle);
}

TEST_F(ConnectionManagers, APeerWaitsForASlowProgramBeyondThePatience) {
	server.accepts = false;
	const CommId id = connect();
	run(100 * second);  // longer than `patience`: a repeated REQ is answered by an MRA
	EXPECT_THAT(client.kinds(), IsEmpty());
	EXPECT_THAT(server.kinds(), ElementsAre(Kind::request));
	EXPECT_TRUE(server.manager.reply(now, at_server(), {}, 78, {}));
	run(now + second);
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::response));
	EXPECT_EQ(state(client, id), State::established);
}

TEST_F(ConnectionManagers, TheFirstMessageMayComeBeforeTheRtu) {
	loses = [](int number) { return number == 2; };
	connect();
	run(ms);
	EXPECT_THAT(server.kinds(), ElementsAre(Kind::request));
	EXPECT_TRUE(server.manager.establish(at_server()));
	run(second);
	EXPECT_THAT(server.kinds(), ElementsAre(Kind::request, Kind::established));
}

// Regression: the active end waited for ever for the end of the connection.

// The peer uses the number of an ended connection again before this end's program has destroyed it.

TEST_F(ConnectionManagers, AMessageFromElsewhereChangesNothing) {
	const CommId id = connect();
	run(ms);
	End stranger(13, 5);
	stranger.gid[15] = 3;
	const Dreq dreq{at_server(), id, {0x1234}, {}};
	client.manager.handle_mad(now, route(client, stranger), write_message({9, dreq}));
	const Rej rej{at_server(), id, 2, reject_reason::consumer, 0, {}};
	client.manager.handle_mad(now, route(client, stranger), write_message({9, rej}));
	client.manager.handle_mad(now, route(client, server), write_message({9, Dreq{{1}, id, {0x1234}, {}}}));
	EXPECT_EQ(state(client, id), State::established);
	EXPECT_THAT(client.kinds(), ElementsAre(Kind::response));
	EXPECT_EQ(client.manager.counters().mismatched, 3u);
}

TEST_F(ConnectionManagers, GarbageIsDropped) {
	connect();
	run(ms);
	for (int i = 0; i < 20'000; ++i) {
		wire::Mad mad;
		for (std::byte& byte : mad) byte = std::byte(random.below(256));
		if (random.chance(0.9))
			wire::write_mad_header(mad, {.attribute_id = static_cast<std::uint16_t>(0x10 + random.below(9))});
		if (random.chance(0.5)) wire::store_be32(&mad[28], at_server().value);
		server.manager.handle_mad(now, route(server, client), mad);
		settle();
	}
	EXPECT_LE(server.manager.connection_count(), 2u);
	EXPECT_GT(server.manager.counters().malformed, 0u);
	EXPECT_GT(server.manager.counters().unexpected, 0u);
}

TEST_F(ConnectionManagers, ADatagramServiceIsFound) {
	EXPECT_TRUE(server.manager.listen(service_of(port_space::udp, 9), wire::Gid{}, &server));
	loses = [](int number) { return number == 1; };  // the first answer
	const ConnectionManager::Request request{
		.service = service_of(port_space::udp, 9), .addresses = {client.gid, server.gid, 1}};
	client.manager.resolve(now, route(client, server), request, &client);
	run(second);
	ASSERT_THAT(client.kinds(), ElementsAre(Kind::datagram_response));
	EXPECT_THAT(server.kinds(), ElementsAre(Kind::datagram_request)) << "repeated and answered twice, reported once";
	const auto& rep = std::get<SidrRep>(client.events[0].message);
	EXPECT_EQ(rep.qpn.value, 0x77u);
	EXPECT_EQ(rep.q_key, 9u);
}

TEST_F(ConnectionManagers, TheListenerOfAnAddressPrecedesTheWildcardListener) {
	wire::Gid other{};
	other[15] = 9;
	int special = 0;
	EXPECT_TRUE(server.manager.listen(service, server.gid, &special));
	EXPECT_FALSE(server.manager.listen(service, server.gid, &special));
	EXPECT_TRUE(server.manager.listen(service, other, &client));
	connect();
	run(ms);
	EXPECT_EQ(server.events[0].listener, &special);
	server.manager.unlisten(service, &special);
	connect();
	run(now + ms);
	EXPECT_EQ(server.events.back().kind, Kind::established);
	EXPECT_EQ(server.events[server.events.size() - 2].listener, &server);
}

}  // namespace
}  // namespace verbena::cm
