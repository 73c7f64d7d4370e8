// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/managed.h"

#include <chrono>
#include <cstring>

namespace verbena::channel {
namespace {

using async::Task;

// The reject reason of a listener whose queue of requests is full; it then sends no private data
// (IBA 12.6.7.2).
constexpr int reason_consumer_defined = 28;

bool says_busy(const lib::ConnectionEvent& event) {
	const bool wordless = event.private_data.empty() || event.private_data.front() == std::byte{0};
	return event.type == RDMA_CM_EVENT_REJECTED && event.status == reason_consumer_defined && wordless;
}

std::unexpected<lib::ConnectError> failed(
	const std::string& text, lib::ConnectTrouble trouble = lib::ConnectTrouble::failed) {
	return std::unexpected(lib::ConnectError{.trouble = trouble, .text = text});
}

ConnectTrouble trouble_of(lib::ConnectTrouble trouble) {
	switch (trouble) {
		case lib::ConnectTrouble::port_busy: return ConnectTrouble::no_port;
		case lib::ConnectTrouble::timed_out: return ConnectTrouble::timed_out;
		case lib::ConnectTrouble::rejected: return ConnectTrouble::handshake;
		case lib::ConnectTrouble::no_device:
		case lib::ConnectTrouble::unreachable:
		case lib::ConnectTrouble::refused: return ConnectTrouble::unreachable;
		case lib::ConnectTrouble::failed: break;
	}
	return ConnectTrouble::no_resources;
}

// Waits for the event that must come next; any other is an error.
Task<lib::Connected<lib::ConnectionEvent>> await_event(
	ManagedId& id, rdma_cm_event_type wanted, Nanoseconds deadline, const std::string& where) {
	auto event = co_await id.next(deadline);
	if (!event) co_return std::unexpected(lib::trouble_of("", ETIMEDOUT, where));
	if (event->type != wanted) co_return std::unexpected(lib::trouble_of(*event, where));
	co_return std::move(*event);
}

lib::SocketAddress socket_address(const async::Address& address) { return {.storage = address.storage}; }

// Moves the handshake's bytes as messages of the channel, until the handshake has agreed or failed.
Task<void> drive(Channel& channel, Handshake& handshake) {
	const CloseAt timer(channel, handshake.poll_timeout());
	std::array<std::byte, 4096> buffer;
	while (true) {
		while (const std::size_t count = handshake.take(buffer)) {
			const auto sent = co_await channel.send(std::span(buffer).first(count));
			if (!sent) handshake.feed_end();
		}
		if (handshake.state() != Handshake::State::waiting) co_return;
		const auto message = co_await channel.receive();
		if (message) handshake.feed(message->bytes());
		else if (monotonic_now() >= handshake.poll_timeout()) handshake.handle_timeout(monotonic_now());
		else handshake.feed_end();
	}
}

// Resolves the address and the route: afterwards the id has a device, which is the transport's.
Task<lib::Connected<void>> resolve(ManagedEvents& events, const RcTransport& transport, ManagedId& id,
	const async::Address& to, const async::Address* from, Nanoseconds deadline, const std::string& where) {
	const lib::SocketAddress there = socket_address(to),
							 here = from != nullptr ? socket_address(*from) : lib::SocketAddress{};
	const auto left = std::chrono::milliseconds((deadline - monotonic_now()) / 1'000'000);
	auto begun = lib::begin_resolve(events.channel(), there, left, from != nullptr ? &here : nullptr, &id);
	if (!begun) co_return std::unexpected(begun.error());
	id.own(std::move(*begun));
	if (const auto event = co_await await_event(id, RDMA_CM_EVENT_ADDR_RESOLVED, deadline, where); !event)
		co_return std::unexpected(event.error());
	if (const std::string why = why_unusable(transport, ibv_get_device_name(id.get()->verbs->device), {}); !why.empty())
		co_return failed(where + ": " + why, lib::ConnectTrouble::unreachable);
	if (auto asked = lib::begin_route(id.get(), left); !asked) co_return std::unexpected(asked.error());
	if (const auto event = co_await await_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED, deadline, where); !event)
		co_return std::unexpected(event.error());
	co_return lib::Connected<void>{};
}

// Closes the channel when rdma_cm reports that the connection has ended, which it does sooner than
// a queue pair that has nothing to send.
Task<void> close_with_connection(ManagedId& id, Channel& channel) {
	while (true) {
		const auto event = co_await id.next(never);
		if (!event || event->type == RDMA_CM_EVENT_ESTABLISHED) continue;
		channel.close();
		co_return;
	}
}

// Ends a set-up that this end gave up, so that the server receives why before the connection ends:
// the alert is the last message on the queue pair, and the queue pair must outlive its delivery.
Task<void> close_in_order(Channel& channel) {
	channel.close();
	co_await channel.until_closed();
}

// A connected queue pair whose peer is not authenticated yet.
struct Raw {
	std::unique_ptr<RcChannel> channel;
	Parameters ours;
	RcEnd peer;
};

// Connects a queue pair by rdma_cm. `busy`: the server has no room for one more request, and may
// have soon.
Task<lib::Connected<Raw>> connect_raw(ManagedId& id, RcTransport& transport, const ConnectOptions& options,
	Nanoseconds deadline, const std::string& where, bool& busy) {
	auto offer = transport.offer();
	if (!offer) co_return failed(offer.error());
	const auto terms = encode_terms(parameters_of(Role::client, offer->end));
	const lib::OwnQueuePair own{
		.number = offer->end.qpn, .shared_receives = true, .reads = static_cast<std::uint8_t>(offer->end.reads)};
	if (const auto begun = lib::begin_connect(id.get(), terms, own); !begun) co_return std::unexpected(begun.error());
	const auto answer = co_await id.next(deadline);
	if (!answer) co_return std::unexpected(lib::trouble_of("", ETIMEDOUT, where));
	busy = says_busy(*answer);
	if (answer->type != RDMA_CM_EVENT_CONNECT_RESPONSE) co_return std::unexpected(lib::trouble_of(*answer, where));
	const auto theirs = decode_terms(answer->private_data, Role::server);
	if (!theirs)
		co_return failed(where + " is not a channel server: its " + theirs.error().text, lib::ConnectTrouble::rejected);
	const auto path = lib::path_of(id.get());
	if (!path) co_return std::unexpected(path.error());
	if (const std::string why = why_unusable(transport, path->device, path->gid_index); !why.empty())
		co_return failed(where + ": " + why, lib::ConnectTrouble::unreachable);
	offer->end.psn = path->local_psn;
	Raw raw{.channel = nullptr, .ours = parameters_of(offer->end, options), .peer = managed_end(*path, *theirs)};
	auto channel = transport.connect(std::move(*offer), raw.peer, where);
	if (!channel) co_return failed(where + ": " + channel.error());
	raw.channel = std::move(*channel);
	raw.channel->limit_messages(unproven_message_max);
	if (const auto established = lib::establish(id.get()); !established) co_return std::unexpected(established.error());
	co_return std::move(raw);
}

// The server, as text, and the time when the attempt must be over.
struct Goal {
	std::string where;
	Nanoseconds deadline;
};

// Connects a queue pair by rdma_cm, and tries again while the server is busy. `id` becomes the
// connection's; destroying it disconnects rdma_cm, and not the queue pair.
Task<lib::Connected<Raw>> connect_unless_busy(ManagedEvents& events, RcTransport& transport,
	const ConnectOptions& options, const async::Address& address, Goal goal, Attempts& attempts,
	std::optional<ManagedId>& id) {
	while (true) {
		id.emplace(transport.loop());
		auto resolving = resolve(events, transport, *id, address, options.from, goal.deadline, goal.where);
		if (const auto resolved = co_await std::move(resolving); !resolved) co_return std::unexpected(resolved.error());
		bool busy = false;
		auto connecting = connect_raw(*id, transport, options, goal.deadline, goal.where, busy);
		auto connected = co_await std::move(connecting);
		if (connected) co_return std::move(*connected);
		if (!busy || !co_await attempts.another()) co_return std::unexpected(connected.error());
	}
}

}  // namespace

RcEnd managed_end(const lib::ManagedPath& path, const Parameters& terms) {
	RcEnd end = end_of(terms);
	end.qpn = path.peer.qpn;
	end.psn = path.peer.psn;
	end.lid = path.peer.lid;
	end.gid = path.peer.gid;
	end.mtu_bytes = std::min(path.mtu_bytes, terms.mtu);
	return end;
}

std::string why_unusable(
	const RcTransport& transport, const std::string& device, std::optional<std::uint32_t> gid_index) {
	const lib::Choice& choice = transport.device().choice;
	if (device != choice.device)
		return "rdma_cm reaches that address by " + device + ", but this end uses " + choice.device +
			": choose --device " + device + " or another address";
	if (gid_index && *gid_index != choice.gid_index)
		return "rdma_cm reaches that address by GID " + std::to_string(*gid_index) + " of " + device +
			", but this end uses GID " + std::to_string(choice.gid_index) + ": choose another address of that host";
	return {};
}

bool same_end(const RcEnd& used, const Parameters& said) {
	const RcEnd end = end_of(said);
	return end.qpn == used.qpn && end.psn == used.psn &&
		std::memcmp(end.gid.raw, used.gid.raw, sizeof end.gid.raw) == 0 && end.unit_bytes == used.unit_bytes &&
		end.credits == used.credits && end.receive_depth == used.receive_depth && end.eager_max == used.eager_max &&
		end.reads == used.reads;
}

Task<Connected<std::unique_ptr<RcChannel>>> connect_managed(
	ManagedEvents& events, RcTransport& transport, ConnectOptions options) {
	const auto permit = co_await permit_to_begin(options.handshakes);
	const auto named = async::split_host(options.host, options.port);
	if (!named) co_return failed(options, ConnectTrouble::unreachable, named.error());
	const auto address = async::resolve(named->host, named->port);
	if (!address) co_return failed(options, ConnectTrouble::unreachable, address.error());
	const std::string where = async::to_string(*address);
	const Nanoseconds started = monotonic_now(), deadline = started + options.patience;

	Attempts attempts(transport.loop(), deadline);
	while (true) {
		std::optional<ManagedId> id;
		auto connecting = connect_unless_busy(events, transport, options, *address, {where, deadline}, attempts, id);
		auto raw = co_await std::move(connecting);
		if (!raw) co_return failed(options, trouble_of(raw.error().trouble), raw.error().text + attempts.text());
		RcChannel& channel = *raw->channel;
		const async::Job watching(transport.loop(), close_with_connection(*id, channel));
		auto handshake = Handshake::client({.protection = options.protection,
											   .host = named->host,
											   .port = named->port,
											   .started = started,
											   .patience = options.patience,
											   .clear_advice = options.clear_advice},
			raw->ours);
		co_await drive(channel, handshake);
		if (handshake.state() == Handshake::State::failed) {
			const HandshakeError& error = handshake.error();
			if (error.trouble != HandshakeFailure::timed_out) co_await close_in_order(channel);
			if (error.busy && co_await attempts.another()) continue;
			co_return failed(options, trouble_of(error), where + ": " + error.text + attempts.text());
		}
		const Agreed& agreed = handshake.agreed();
		if (!same_end(raw->peer, agreed.theirs))
			co_return failed(options, ConnectTrouble::handshake,
				where +
					": the server's parameters are not those of the queue pair that rdma_cm connected; "
					"an attacker may have relayed the connection");
		if (options.negotiated != nullptr) *options.negotiated = agreed.negotiated;
		const std::string trouble = co_await prove_as_client(channel, agreed.proof, deadline);
		if (!trouble.empty()) co_return failed(options, handshake_or_time(deadline), where + ": " + trouble);
		channel.limit_messages(transport.options().message_max);
		co_return std::move(raw->channel);
	}
}

}  // namespace verbena::channel
