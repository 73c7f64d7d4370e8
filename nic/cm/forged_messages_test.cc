// SPDX-License-Identifier: Apache-2.0
// Messages that have everything right but one field change nothing: each kind of message, in each
// state that waits for it, with each field wrong in turn. The unchanged message has its effect.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "nic/cm/connection_manager.h"

namespace verbena::cm {
namespace {

constexpr ServiceId service = service_of(port_space::tcp, 7174);
constexpr CommId peers_number{0x7f001234};
constexpr wire::Qpn own_qpn{0x1234}, peers_qpn{0x4321};
constexpr std::uint64_t peers_transaction = 0x5555'0000'1111;
constexpr std::uint64_t link_of_peer = 0xabcdef;

wire::Gid gid_ending_in(std::uint8_t last) {
	wire::Gid gid{};
	gid[15] = last;
	return gid;
}

// A message on its way to the victim.
struct Delivery {
	Route from;
	Envelope envelope;
};

// One end with one connection, whose peer is the test.
class Victim {
public:
	explicit Victim(std::uint64_t link) : link_(link) {
		manager.use_block(3);
		manager.report_mismatch = [](Mismatch what) { reported = what; };
		EXPECT_TRUE(manager.listen(service, {}, this));
		EXPECT_TRUE(manager.listen(service_of(port_space::udp, 1), {}, this));
	}

	Route route() {
		Route route{};
		route.addresses.source[15] = 1;
		route.addresses.destination[15] = 2;
		route.carrier = this;
		route.link = link_;
		return route;
	}
	std::uint64_t transaction() { return manager.find(id)->transaction; }

	void request() {
		id = manager.connect(now, route(), {.service = service, .own = {.qpn = own_qpn}, .path_mtu = 3}, this);
		settle();
	}
	void request_datagram() {
		id = manager.resolve(now, route(), {.service = service_of(port_space::udp, 1)}, this);
		settle();
	}
	void get_request() {
		deliver({route(), {peers_transaction, req()}});
		ASSERT_FALSE(events.empty());
		id = events.back().connection;
		events.clear();
	}
	void get_request_and_reply() {
		get_request();
		ASSERT_TRUE(manager.reply(now, id, {.qpn = own_qpn}, 7, {}));
		settle();
	}
	void request_and_get_reply() {
		request();
		deliver({route(), {transaction(), Rep{.local = peers_number, .remote = id, .qpn = peers_qpn}}});
		events.clear();
	}
	void establish() {
		request_and_get_reply();
		ASSERT_TRUE(manager.confirm(id));
		settle();
	}
	void disconnect() {
		establish();
		ASSERT_TRUE(manager.disconnect(now, id));
		settle();
	}
	static Req req() {
		return {.local = peers_number,
			.service = service,
			.ca_guid = 5,
			.path_mtu = 3,
			.addresses = {gid_ending_in(2), gid_ending_in(1), 40'000}};
	}

	void deliver(const Delivery& delivery) {
		manager.handle_mad(now, delivery.from, write_message(delivery.envelope));
		settle();
	}
	void settle() {
		for (; manager.next_outgoing(); manager.pop_outgoing()) {
			const auto sent = read_message(manager.next_outgoing()->mad);
			if (sent) last_sent = sent->message;
			++sent_count;
		}
		while (auto event = manager.poll_event()) events.push_back(*event);
	}
	// Everything that a message could have changed.
	std::string picture() {
		const Connection* c = manager.find(id);
		if (!c) return "gone";
		return std::to_string(static_cast<int>(c->state)) + ' ' + std::to_string(c->remote.value) + ' ' +
			std::to_string(c->transaction) + ' ' + std::to_string(c->give_up_at) + ' ' +
			std::to_string(c->other.qpn.value) + ' ' + std::to_string(events.size()) + ' ' +
			std::to_string(manager.connection_count());
	}
	std::uint64_t dropped() const { return manager.counters().mismatched + manager.counters().unexpected; }

	static inline Mismatch reported{};
	ConnectionManager manager{1, 0};
	Nanoseconds now = ms;
	CommId id;
	std::vector<Event> events;
	Message last_sent;
	int sent_count = 0;

private:
	std::uint64_t link_;
};

// A kind of message in a state that waits for it.
struct Situation {
	const char* name;
	void (Victim::*prepare)();
	std::function<Message(Victim&)> message;
	bool is_answer;  // the transaction id is the victim's, or that of the peer's REQ
};

std::vector<Situation> situations() {
	const auto rej = [](std::uint8_t of, std::uint16_t reason) {
		return [of, reason](Victim& v) { return Rej{peers_number, v.id, of, reason, 0, {}}; };
	};
	return {
		{"MRA of a REQ", &Victim::request, [](Victim& v) { return Mra{peers_number, v.id, refers_to_req, 20, {}}; },
			true},
		{"MRA of a REP", &Victim::get_request_and_reply,
			[](Victim& v) { return Mra{peers_number, v.id, refers_to_rep, 20, {}}; }, true},
		{"REP", &Victim::request,
			[](Victim& v) { return Rep{.local = peers_number, .remote = v.id, .qpn = peers_qpn}; }, true},
		{"RTU", &Victim::get_request_and_reply, [](Victim& v) { return Rtu{peers_number, v.id, {}}; }, true},
		{"REJ of a REQ", &Victim::request, rej(refers_to_req, reject_reason::consumer), true},
		{"REJ of a REQ without listener", &Victim::request, rej(refers_to_req, reject_reason::invalid_service), true},
		{"REJ of a REP", &Victim::get_request_and_reply, rej(refers_to_rep, reject_reason::consumer), true},
		{"REJ after a REP", &Victim::request_and_get_reply, rej(refers_to_other, reject_reason::consumer), true},
		{"REJ that withdraws", &Victim::get_request,
			[](Victim&) { return Rej{peers_number, {}, refers_to_other, reject_reason::timeout, 5, {}}; }, true},
		{"DREQ", &Victim::establish, [](Victim& v) { return Dreq{peers_number, v.id, own_qpn, {}}; }, false},
		{"DREQ after a REP", &Victim::request_and_get_reply,
			[](Victim& v) { return Dreq{peers_number, v.id, own_qpn, {}}; }, false},
		{"DREQ that crosses ours", &Victim::disconnect, [](Victim& v) { return Dreq{peers_number, v.id, own_qpn, {}}; },
			false},
		{"DREP", &Victim::disconnect, [](Victim& v) { return Drep{peers_number, v.id, {}}; }, true},
		{"SIDR_REP", &Victim::request_datagram,
			[](Victim& v) {
				return SidrRep{v.id, sidr_status::success, peers_qpn, service_of(port_space::udp, 1), 9, {}};
			},
			true},
	};
}

// A field, and how to make it wrong. False: the message does not have the field, or it is not
// bound in this situation.
struct Forgery {
	const char* field;
	bool (*apply)(Delivery&, const Situation&, const Victim&);
};

template <class Change> bool change_ids(Message& message, Change&& change) {
	return std::visit(
		[&](auto& m) {
			if constexpr (requires { m.remote; }) return change(m.local, m.remote);
			else return false;
		},
		message);
}

constexpr Forgery forgeries[] = {
	{"carrier",
		[](Delivery& d, const Situation&, const Victim&) {
			d.from.link = d.from.link ? 0 : link_of_peer;
			return true;
		}},
	{"another process", [](Delivery& d, const Situation&, const Victim&) { return d.from.link++ != 0; }},
	{"sender's address",
		[](Delivery& d, const Situation&, const Victim&) {
			d.from.addresses.destination[0] ^= 1;
			return true;
		}},
	{"receiver's address",
		[](Delivery& d, const Situation&, const Victim&) {
			d.from.addresses.source[0] ^= 1;
			return true;
		}},
	{"receiver's number",
		[](Delivery& d, const Situation&, const Victim&) {
			if (auto* const answer = std::get_if<SidrRep>(&d.envelope.message)) {
				answer->request.value ^= 1;
				return true;
			}
			return change_ids(d.envelope.message, [](CommId&, CommId& remote) {
				remote.value ^= 1;
				return true;
			});
		}},
	{"sender's number",
		[](Delivery& d, const Situation& s, const Victim& v) {
			const bool known = s.prepare != &Victim::request && s.prepare != &Victim::request_datagram;
			static_cast<void>(v);
			return known && change_ids(d.envelope.message, [](CommId& local, CommId&) {
				local.value ^= 1;
				return true;
			});
		}},
	{"no sender's number",
		[](Delivery& d, const Situation& s, const Victim&) {
			// A REJ of a REQ may come from a peer without a number; an MRA of one names it.
			const bool may_lack = s.prepare == &Victim::request && !std::holds_alternative<Rep>(d.envelope.message);
			return !may_lack && change_ids(d.envelope.message, [](CommId& local, CommId&) {
				local.value = 0;
				return true;
			});
		}},
	{"transaction id",
		[](Delivery& d, const Situation& s, const Victim&) {
			d.envelope.transaction ^= 1;
			return s.is_answer;
		}},
	{"queue pair number",
		[](Delivery& d, const Situation&, const Victim&) {
			auto* const dreq = std::get_if<Dreq>(&d.envelope.message);
			if (dreq) dreq->remote_qpn.value ^= 1;
			return dreq != nullptr;
		}},
	{"CA GUID",
		[](Delivery& d, const Situation&, const Victim&) {
			auto* const rej = std::get_if<Rej>(&d.envelope.message);
			if (!rej || rej->remote.value != 0) return false;
			rej->ca_guid ^= 1;
			return true;
		}},
};

class Forger : public ::testing::TestWithParam<std::uint64_t> {};  // the link, 0: UDP

TEST_P(Forger, WithEverythingRightButOneFieldChangesNothing) {
	int forged = 0;
	for (const Situation& situation : situations())
		for (const Forgery& forgery : forgeries) {
			Victim victim(GetParam());
			(victim.*situation.prepare)();
			Delivery delivery{victim.route(), {victim.transaction(), situation.message(victim)}};
			const Delivery right = delivery;
			if (!forgery.apply(delivery, situation, victim)) continue;
			++forged;
			const std::string where = std::string(situation.name) + ", wrong " + forgery.field;
			const std::string before = victim.picture();
			const std::uint64_t dropped = victim.dropped();
			victim.deliver(delivery);
			EXPECT_EQ(victim.picture(), before) << where;
			EXPECT_EQ(victim.dropped(), dropped + 1) << where;
			victim.deliver(right);
			EXPECT_NE(victim.picture(), before) << where << ": the peer's own message";
			EXPECT_EQ(victim.dropped(), dropped + 1) << where;
		}
	EXPECT_GT(forged, 80);
}

INSTANTIATE_TEST_SUITE_P(EachCarrier, Forger, ::testing::Values(0, link_of_peer),
	[](const auto& link) { return link.param ? "Shared" : "Udp"; });

// The trial that ended connections: the sender's number 0 counted as any.
TEST(ForgedDreq, WithoutASendersNumberOrQueuePairIsAnsweredAndChangesNothing) {
	for (const std::uint64_t link : {std::uint64_t{0}, link_of_peer}) {
		Victim victim(link);
		victim.establish();
		Route udp = victim.route();
		udp.link = 0;
		victim.deliver({udp, {1, Dreq{{}, victim.id, {}, {}}}});
		EXPECT_EQ(victim.manager.find(victim.id)->state, State::established);
		EXPECT_EQ(victim.manager.counters().mismatched, 1u);
		EXPECT_EQ(Victim::reported, link ? Mismatch::carrier : Mismatch::number);
		EXPECT_TRUE(std::holds_alternative<Drep>(victim.last_sent)) << "as for a connection that does not exist";
	}
}

TEST(ForgedRequest, WithAnotherTransactionIdIsNotTakenForARepetition) {
	Victim victim(0);
	victim.get_request_and_reply();
	const int sent = victim.sent_count;
	victim.deliver({victim.route(), {peers_transaction + 1, Victim::req()}});
	EXPECT_EQ(victim.sent_count, sent);
	EXPECT_EQ(victim.manager.counters().mismatched, 1u);
	victim.deliver({victim.route(), {peers_transaction, Victim::req()}});
	EXPECT_EQ(victim.sent_count, sent + 1) << "the REP again";
}

// A process that knows a request through shared memory cannot take its place over UDP.
TEST(ForgedRequest, ByAnotherCarrierIsAnotherRequest) {
	Victim victim(link_of_peer);
	victim.get_request_and_reply();
	Route udp = victim.route();
	udp.link = 0;
	victim.deliver({udp, {peers_transaction, Victim::req()}});
	ASSERT_EQ(victim.events.size(), 1u);
	EXPECT_NE(victim.events[0].connection, victim.id);
}

TEST(ForgedRefusal, ByIcmpDoesNotReachAConnectionOfSharedMemory) {
	for (const std::uint64_t link : {std::uint64_t{0}, link_of_peer}) {
		Victim victim(link);
		victim.request();
		victim.manager.handle_refusal(victim.now, gid_ending_in(2), victim.transaction());
		victim.settle();
		EXPECT_EQ(victim.events.size(), link ? 0u : 1u);
	}
}

// The messages of Linux 6.1, where they differ from those of this Communication Manager.
TEST(KernelPeer, RejectsARequestWithoutANumberOfItsOwn) {
	Victim victim(0);
	victim.request();
	const Rej rej{{}, victim.id, refers_to_req, reject_reason::consumer, 0, {}};
	victim.deliver({victim.route(), {victim.transaction(), rej}});
	ASSERT_EQ(victim.events.size(), 1u);
	EXPECT_EQ(victim.events[0].kind, Event::Kind::rejected);
}

TEST(KernelPeer, AnswersALateDreqWithTheTransactionIdOfTheReq) {
	Victim victim(0);
	victim.establish();
	const std::uint64_t of_req = victim.transaction();
	ASSERT_TRUE(victim.manager.disconnect(victim.now, victim.id));
	victim.settle();
	ASSERT_NE(victim.transaction(), of_req);
	victim.deliver({victim.route(), {of_req, Drep{peers_number, victim.id, {}}}});
	ASSERT_EQ(victim.events.size(), 1u);
	EXPECT_EQ(victim.events[0].kind, Event::Kind::disconnected);
	EXPECT_EQ(victim.events[0].status, 0);
}

TEST(KernelPeer, GetsADrepForAConnectionThatIsGone) {
	Victim victim(0);
	victim.deliver({victim.route(), {4, Dreq{peers_number, {0x300123}, {5}, {}}}});
	ASSERT_TRUE(std::holds_alternative<Drep>(victim.last_sent));
	EXPECT_EQ(std::get<Drep>(victim.last_sent).remote, peers_number);
	EXPECT_EQ(std::get<Drep>(victim.last_sent).local, CommId{0x300123});
}

}  // namespace
}  // namespace verbena::cm
