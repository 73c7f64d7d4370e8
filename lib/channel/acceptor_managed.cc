// SPDX-License-Identifier: Apache-2.0
// The part of Acceptor that serves clients by rdma_cm.
//
// Threads: a client's queue pair and channel live on their home's loop from the start, and the
//   handshake's messages are sent and received there. The handshake itself (TLS, checks) runs on
//   the acceptor's loop, like handshakes over TCP.
#include <cstring>
#include <utility>

#include "lib/async/transfer.h"
#include "lib/channel/acceptor.h"
#include "lib/channel/managed.h"

namespace verbena::channel {
namespace {

using async::Task;

constexpr int backlog = 1024;

// The result of feeding a handshake: the bytes that it sends next, and its state.
struct Step {
	std::vector<std::byte> say;
	Handshake::State state = Handshake::State::waiting;
};

// The end of a conversation: whether the handshake agreed, and if so why a proof failed (empty if
// none did).
struct Outcome {
	bool agreed = false;
	std::string trouble;
	bool good() const { return agreed && trouble.empty(); }
};

}  // namespace

// The state of one client, from its request to the end of its rdma_cm connection. Shared by
// coroutines on both loops; the labels below say which loop may use what.
struct Acceptor::Managed {
	Managed(
		async::Loop& loop, lib::ConnectionId connection, const HandshakeOptions& options, const AcceptorOptions& limits)
		: id(loop),
		  limits(limits),
		  handshake(Handshake::server(options)),
		  started(options.started),
		  deadline(options.started + options.patience) {
		id.own(std::move(connection));
		peer = lib::format_address(rdma_get_peer_addr(id.get()));
	}

	// Used on the acceptor's loop.
	ManagedId id;
	const AcceptorOptions& limits;
	Handshake handshake;
	std::string peer;
	Nanoseconds started, deadline;
	HandshakeError error;  // a failure before the handshake
	bool ended = false;  // the handshake, and the proofs if it agreed, are over
	bool good = false;  // the client is accepted; only when `ended`
	bool evicted = false;  // the handshake had to make room for another
	bool left = false;  // the client's rdma_cm connection has ended
	// Written before the handshake begins, and constant afterwards.
	const Home* home = nullptr;
	ClientPlace seat;
	Parameters ours;
	RcEnd end;  // the client's, as its queue pair was connected
	// Used on the home's loop: the channel that converse() owns, until the client has proved
	// itself.
	RcChannel* channel = nullptr;

	void refuse(RefusalCode code, const std::string& why) {
		error = {.trouble = HandshakeFailure::refused, .text = "refused: " + why, .refusal = code};
		lib::reject(id.get(), why);
	}
	// On the home's loop: closes the channel, which ends converse(), unless it is over.
	void abandon() {
		if (channel != nullptr) channel->close();
	}
	// On the home's loop: makes a queue pair that is ready to receive, or returns why there is
	// none.
	std::expected<std::unique_ptr<RcChannel>, Refusal> prepare(const lib::ManagedPath& path, const Parameters& terms);
	// On the acceptor's loop: feeds the handshake a message; nothing means that the channel has
	// ended.
	Step advance(const std::optional<std::vector<std::byte>>& received);
	// On the home's loop: performs the handshake and the proofs on this channel.
	Task<Outcome> shake_hands(async::Loop& acceptor, RcChannel& made);
};

std::expected<void, std::string> Acceptor::listen_managed() {
	auto events = ManagedEvents::open(loop_);
	if (!events) return std::unexpected(events.error());
	auto listening = (*events)->listen({.storage = async::local_address(*listener_).storage}, backlog,
		[this](lib::ConnectionId id, std::vector<std::byte> terms) {
			++counters_.accepted;
			loop_.spawn(serve_managed(std::move(id), std::move(terms)));
		});
	if (!listening) return listening;
	managed_ = std::move(*events);
	return {};
}

Task<void> Acceptor::serve_managed(lib::ConnectionId connection, std::vector<std::byte> terms) {
	co_await turn();
	const Source source = source_of(rdma_get_peer_addr(connection.get()));
	if (accepted_ >= options_.accepted_max) {
		lib::reject(connection.get(), "the server is full");
		complain_rarely("more clients in their set-up than accepted_max: a client by rdma_cm is refused");
		co_return;
	}
	// A client that waits counts like one that has not begun.
	std::optional<Counted> accepted(std::in_place, accepted_, loop_, at_room_);
	co_await handshakes_.until_room(source);  // after stop() begin_managed() rejects it
	accepted.reset();
	const HandshakeOptions options{.protection = options_.protection,
		.host = {},
		.started = monotonic_now(),
		.patience = options_.patience,
		.clear_advice = options_.clear_advice};
	const auto session = std::make_shared<Managed>(loop_, std::move(connection), options, options_);
	const auto abandon = [session] {
		session->evicted = true;
		if (session->home != nullptr) session->home->loop->post([session] { session->abandon(); });
	};
	std::optional<Admission::Member> under_way(std::in_place, handshakes_, source, abandon);
	// Ends the rdma_cm connection when this coroutine ends; the session itself may be released
	// later, by a coroutine of the other loop.
	struct EndId {
		Managed& of;
		~EndId() { of.id.end(); }
	} const end_id{*session};
	if (!co_await begin_managed(session, terms)) {
		fail(session->peer, session->error, session->started);
		co_return;
	}
	co_await await_end(session);
	under_way.reset();
	// The client disconnects when it has the server's proof.
	while (session->good && !session->left) {
		const auto event = co_await session->id.next(session->deadline);
		session->left = !event || event->type != RDMA_CM_EVENT_ESTABLISHED;
	}
}

std::expected<std::unique_ptr<RcChannel>, Refusal> Acceptor::Managed::prepare(
	const lib::ManagedPath& path, const Parameters& terms) {
	RcTransport& transport = *home->transport;
	auto offer = transport.offer();
	if (!offer) return std::unexpected(refusal_of(transport, offer.error()));
	offer->end.psn = path.local_psn;
	ours = parameters_of(Role::server, offer->end);
	end = managed_end(path, terms);
	auto made = transport.connect(std::move(*offer), end, peer);
	if (!made) return std::unexpected(Refusal{RefusalCode::malformed, made.error()});
	channel = made->get();
	channel->keep(std::move(seat));
	channel->limit_messages(unproven_message_max);
	return std::move(*made);
}

// Checks the request and accepts the connection. True: there is a channel, and converse() receives
// the handshake on it. False: the request was rejected, and session->error says why.
Task<bool> Acceptor::begin_managed(std::shared_ptr<Managed> session, std::span<const std::byte> data) {
	const auto terms = decode_terms(data, Role::client);
	if (!terms) {
		session->refuse(RefusalCode::malformed, "the request has no valid terms of a channel: " + terms.error().text);
		co_return false;
	}
	const Home& home = next_home();
	session->home = &home;
	if (stopped_ || home.transport == nullptr) {
		if (stopped_) session->refuse(RefusalCode::shutting_down, "this server is shutting down");
		else
			session->refuse(RefusalCode::not_supported,
				"this server serves TCP only, and the client asks for RDMA: connect over TCP");
		co_return false;
	}
	session->seat = take_client_place();
	if (!session->seat) {
		session->refuse(RefusalCode::full, "the server is full");
		co_return false;
	}
	const auto path = lib::path_of(session->id.get());
	if (!path) {
		session->error = {.trouble = HandshakeFailure::closed, .text = path.error().text, .refusal = {}};
		co_return false;
	}
	if (const std::string why = why_unusable(*home.transport, path->device, path->gid_index); !why.empty()) {
		session->refuse(RefusalCode::not_supported, why);
		co_return false;
	}
	auto preparing = async::run_on(loop_, *home.loop, [&]() -> std::optional<Refusal> {
		auto channel = session->prepare(*path, *terms);
		if (!channel) return channel.error();
		home.loop->spawn(converse(home, session, std::move(*channel)));
		return std::nullopt;
	});
	if (const auto refusal = co_await preparing) {
		session->refuse(refusal->code, refusal->text);
		co_return false;
	}
	const lib::OwnQueuePair own{.number = session->ours.qp_number,
		.shared_receives = true,
		.reads = static_cast<std::uint8_t>(session->ours.reads_as_target)};
	if (const auto accepted = lib::accept(session->id.get(), encode_terms(session->ours), own); !accepted) {
		complain_(session->peer + ": " + accepted.error().text);
		home.loop->post([session] { session->abandon(); });
	}
	co_return true;
}

// Waits until converse() has ended. If the client disconnects before, the channel is closed.
Task<void> Acceptor::await_end(std::shared_ptr<Managed> session) {
	while (!session->ended) {
		const auto event = co_await session->id.next(never);
		if (!event || event->type == RDMA_CM_EVENT_ESTABLISHED || std::exchange(session->left, true)) continue;
		session->home->loop->post([session] { session->abandon(); });
	}
}

Step Acceptor::Managed::advance(const std::optional<std::vector<std::byte>>& received) {
	const Nanoseconds now = monotonic_now();
	if (received) handshake.feed(*received);
	else if (now >= handshake.poll_timeout()) handshake.handle_timeout(now);
	else handshake.feed_end();
	if (handshake.state() == Handshake::State::asked) {
		const auto refusal = grant_logical(limits, handshake.theirs(), ours);
		if (!same_end(end, handshake.theirs()))
			handshake.refuse(RefusalCode::malformed,
				"the client's parameters are not those of the queue pair that rdma_cm connected");
		else if (refusal) handshake.refuse(refusal->code, refusal->text);
		else handshake.answer(ours);
	}
	Step step{.say = std::vector<std::byte>(handshake.pending()), .state = handshake.state()};
	step.say.resize(handshake.take(step.say));
	return step;
}

Task<Outcome> Acceptor::Managed::shake_hands(async::Loop& acceptor, RcChannel& made) {
	const CloseAt timer(made, deadline);
	Step step;
	while (step.state == Handshake::State::waiting) {
		std::optional<std::vector<std::byte>> received;
		{
			const auto message = co_await made.receive();
			if (message) received.emplace(message->bytes().begin(), message->bytes().end());
		}
		auto advancing = async::run_on(*home->loop, acceptor, [&] { return advance(received); });
		step = co_await advancing;
		if (!step.say.empty()) co_await made.send(step.say);
	}
	Outcome outcome{.agreed = step.state == Handshake::State::agreed, .trouble = {}};
	if (!outcome.agreed) co_return outcome;
	// The acceptor's loop does not use the handshake any more, so it may be read here.
	const ProofKeys keys = handshake.agreed().proof;
	auto waiting = await_proof(made, keys);
	outcome.trouble = co_await std::move(waiting);
	if (!outcome.trouble.empty()) co_return outcome;
	channel = nullptr;
	const Proof proof = make_proof(keys);
	if (!co_await made.send(proof)) outcome.trouble = made.reason();
	co_return outcome;
}

Task<void> Acceptor::converse(const Home& home, std::shared_ptr<Managed> session, std::unique_ptr<RcChannel> made) {
	RcChannel& channel = *made;
	auto shaking = session->shake_hands(loop_, channel);
	const Outcome outcome = co_await std::move(shaking);
	const Negotiated negotiated = outcome.good() ? session->handshake.agreed().negotiated : Negotiated{};
	loop_.post([this, session, outcome] {
		const HandshakeError unproved{
			.trouble = HandshakeFailure::no_proof, .text = "its proof failed: " + outcome.trouble, .refusal = {}};
		if (outcome.good()) succeed(session->started, session->handshake.agreed().resumed);
		else if (session->evicted) fail_evicted(session->peer, session->started);
		else fail(session->peer, outcome.agreed ? unproved : session->handshake.error(), session->started);
		session->ended = true;
		session->good = outcome.good();
		session->id.wake();
	});
	if (outcome.good()) {
		channel.limit_messages(home.transport->options().message_max);
		home.give(std::move(made), negotiated);
		co_return;
	}
	// Close in order, so that the client receives the refusal before the connection ends.
	session->channel = nullptr;
	channel.close();
	co_await channel.until_closed();
}

}  // namespace verbena::channel
