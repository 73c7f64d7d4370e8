// SPDX-License-Identifier: Apache-2.0
// For tests of ConnectionManager: two ends, a virtual clock, and a wire that may lose, repeat and
// delay messages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "base/random.h"
#include "nic/cm/connection_manager.h"

namespace verbena::cm::testing_tools {

using Kind = Event::Kind;

inline constexpr ServiceId service = service_of(port_space::tcp, 7174);

class ConnectionManagers : public ::testing::Test {
protected:
	struct End {
		explicit End(std::uint64_t seed, std::uint32_t block) : manager(seed, 0) { manager.use_block(block); }
		ConnectionManager manager;
		wire::Gid gid{};
		std::vector<Event> events;  // all that were reported
		// If true, this end's program accepts requests, confirms responses and answers
		// disconnections at once.
		bool accepts = true;

		std::vector<Kind> kinds() const {
			std::vector<Kind> kinds;
			for (const Event& event : events) kinds.push_back(event.kind);
			return kinds;
		}
		int count(Kind kind) const {
			return static_cast<int>(
				std::ranges::count_if(events, [kind](const Event& event) { return event.kind == kind; }));
		}
	};

	ConnectionManagers() {
		client.gid[15] = 1;
		server.gid[15] = 2;
		EXPECT_TRUE(server.manager.listen(service, wire::Gid{}, &server));
	}

	Route route(const End& from, const End& to) {
		Route route{};
		std::memcpy(route.addresses.source, from.gid.data(), 16);
		std::memcpy(route.addresses.destination, to.gid.data(), 16);
		route.carrier = const_cast<End*>(&to);
		return route;
	}
	CommId connect(ServiceId to = service, Nanoseconds service_patience = 0) {
		const ConnectionManager::Request request{.service = to,
			.addresses = {client.gid, server.gid, 40'000},
			.ca_guid = 77,
			.own = {.qpn = {0x1234}, .starting_psn = {5}, .responder_resources = 4, .initiator_depth = 3},
			.data = std::as_bytes(std::span("hello")),
			.service_patience = service_patience};
		return client.manager.connect(now, route(client, server), request, &client);
	}

	// The reaction of an end's program to an event.
	void act(End& end, const Event& event) {
		end.events.push_back(event);
		if (!end.accepts) return;
		switch (event.kind) {
			case Kind::request:
				EXPECT_TRUE(end.manager.reply(now, event.connection, {.qpn = {0x4321}, .starting_psn = {6}}, 78, {}));
				end.manager.find(event.connection)->user = &end;
				break;
			case Kind::response: EXPECT_TRUE(end.manager.confirm(event.connection)); break;
			case Kind::disconnected: end.manager.disconnect(now, event.connection); break;
			case Kind::datagram_request:
				EXPECT_TRUE(end.manager.answer(now, event.connection, sidr_status::success, {0x77}, 9, {}));
				break;
			case Kind::service_lookup:
				++lookups;
				if (service_has_owner) EXPECT_TRUE(end.manager.resume(now, event.connection, route(client, server)));
				else EXPECT_TRUE(end.manager.refuse(now, event.connection));
				end.events.pop_back();
				break;
			default: break;
		}
	}

	// Moves messages and events until both ends have none left. Delivery takes time: see
	// dispatch().
	void settle() {
		for (bool moved = true; moved;) {
			moved = false;
			for (End* end : {&client, &server}) {
				while (auto* out = end->manager.next_outgoing()) {
					dispatch(*end, *out);
					end->manager.pop_outgoing();
				}
				while (const auto event = end->manager.poll_event()) {
					act(*end, *event);
					moved = true;
				}
			}
		}
	}
	void dispatch(End& from, const ConnectionManager::Outgoing& out) {
		const int number = sent++;
		if (loses(number)) return;
		End& to = &from == &client ? server : client;
		for (int copy = random.chance(duplicate) ? 2 : 1; copy; --copy)
			on_the_way.emplace(now + 10'000 + (jitter ? random.below(jitter) : 0),
				[this, &from, &to, mad = out.mad] { to.manager.handle_mad(now, route(to, from), mad); });
	}
	// Advances the clock to `until` from event to event.
	void run(Nanoseconds until) {
		settle();
		for (;;) {
			Nanoseconds next = std::min(client.manager.poll_timeout(), server.manager.poll_timeout());
			if (!on_the_way.empty()) next = std::min(next, on_the_way.begin()->first);
			if (next > until) break;
			now = std::max(now, next);
			while (!on_the_way.empty() && on_the_way.begin()->first <= now) {
				const auto deliver = on_the_way.begin()->second;
				on_the_way.erase(on_the_way.begin());
				deliver();
			}
			client.manager.handle_timeouts(now);
			server.manager.handle_timeouts(now);
			settle();
		}
		now = until;
	}
	State state(End& end, CommId id) {
		const Connection* c = end.manager.find(id);
		return c ? c->state : State::idle;
	}
	// The server's number of its first connection.
	CommId at_server() { return server.events.front().connection; }

	Nanoseconds now = 0;
	Random random{1};
	End client{11, 3}, server{12, 4};
	std::multimap<Nanoseconds, std::function<void()>> on_the_way;  // deliveries by time
	int sent = 0;  // messages
	std::function<bool(int)> loses = [](int) { return false; };  // by the message's number
	double duplicate = 0;  // probability
	Nanoseconds jitter = 0;  // largest extra delay
	int lookups = 0;  // service_lookup events, which are not in `events`
	bool service_has_owner = true;  // the server's process owns every service
};

}  // namespace verbena::cm::testing_tools
