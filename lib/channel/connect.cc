// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/connect.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>

#include "base/random.h"

namespace verbena::channel {
namespace {

using async::Task;

// The time to send the last bytes of a handshake that is over and has no deadline any more.
constexpr Nanoseconds last_bytes_timeout = 2'000'000'000;

// The mean pause after a client's first attempt, and the number of times that it doubles.
constexpr Nanoseconds first_pause = 40'000'000;
constexpr unsigned pause_doublings = 5;

// The kind of failure for an errno of connect().
ConnectTrouble trouble_of(int error) {
	switch (error) {
		case EMFILE:
		case ENFILE: return ConnectTrouble::no_descriptor;
		case EADDRINUSE:
		case EADDRNOTAVAIL: return ConnectTrouble::no_port;
		case ETIMEDOUT: return ConnectTrouble::timed_out;
		default: return ConnectTrouble::unreachable;
	}
}

void reset_on_close(const async::Descriptor& socket) {
	const linger now{.l_onoff = 1, .l_linger = 0};
	setsockopt(socket.fd(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

}  // namespace

std::unexpected<std::string> failed(const ConnectOptions& options, ConnectTrouble trouble, std::string text) {
	if (options.trouble != nullptr) *options.trouble = trouble;
	return std::unexpected(std::move(text));
}

ConnectTrouble trouble_of(const HandshakeError& error) {
	return error.trouble == HandshakeFailure::timed_out ? ConnectTrouble::timed_out : ConnectTrouble::handshake;
}

ConnectTrouble handshake_or_time(Nanoseconds deadline) {
	return monotonic_now() >= deadline ? ConnectTrouble::timed_out : ConnectTrouble::handshake;
}

Parameters parameters_of(Role role, const RcEnd& end) {
	Parameters parameters{.role = role,
		.qp_number = end.qpn,
		.first_psn = end.psn,
		.mtu = end.mtu_bytes,
		.receive_depth = end.receive_depth,
		.credits_granted = end.credits,
		.buffer_unit = end.unit_bytes,
		.eager_size_max = end.eager_max,
		.reads_as_target = end.reads,
		.reads_as_initiator = end.reads,
		.nonce = random_nonce()};
	std::memcpy(parameters.gid.data(), end.gid.raw, parameters.gid.size());
	return parameters;
}

Parameters parameters_of(const RcEnd& end, const ConnectOptions& options) {
	Parameters parameters = parameters_of(Role::client, end);
	parameters.shared_queue_pairs = options.shared_queue_pairs;
	parameters.logical_channels = options.logical_channels;
	return parameters;
}

RcEnd end_of(const Parameters& parameters) {
	RcEnd end{.qpn = parameters.qp_number,
		.psn = parameters.first_psn,
		.mtu_bytes = parameters.mtu,
		.unit_bytes = parameters.buffer_unit,
		.credits = parameters.credits_granted,
		.receive_depth = parameters.receive_depth,
		.eager_max = parameters.eager_size_max,
		.reads = std::min(parameters.reads_as_target, parameters.reads_as_initiator)};
	std::memcpy(end.gid.raw, parameters.gid.data(), parameters.gid.size());
	return end;
}

Task<void> drive(async::Descriptor& socket, Handshake& handshake) {
	std::array<std::byte, 4096> buffer;
	while (true) {
		while (const std::size_t count = handshake.take(buffer)) {
			const Nanoseconds deadline = std::min(handshake.poll_timeout(), monotonic_now() + last_bytes_timeout);
			if (!co_await async::write_all(socket, std::span(buffer).first(count), deadline)) handshake.feed_end();
		}
		if (handshake.state() != Handshake::State::waiting) co_return;
		if (monotonic_now() >= handshake.poll_timeout()) {  // this thread was busy with others
			handshake.handle_timeout(monotonic_now());
			continue;
		}
		const ssize_t got = async::try_read(socket, buffer);
		if (got > 0) {
			handshake.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
		} else if (got == -EAGAIN) {
			if (!co_await async::Wait(socket, async::Wait::For::reading, handshake.poll_timeout()))
				handshake.handle_timeout(monotonic_now());
		} else {
			handshake.feed_end();
		}
	}
}

namespace {

// A TCP connection to the server, and its names.
struct Reached {
	async::Socket socket;
	async::Host named;
	std::string where;
};

Task<Connected<Reached>> reach(async::Loop& loop, const ConnectOptions& options, Nanoseconds deadline) {
	auto named = async::split_host(options.host, options.port);
	if (!named) co_return failed(options, ConnectTrouble::unreachable, named.error());
	const auto address = async::resolve(named->host, named->port);
	if (!address) co_return failed(options, ConnectTrouble::unreachable, address.error());
	Reached reached{.named = std::move(*named), .where = async::to_string(*address)};
	int reason = 0;
	auto socket = co_await async::connect(loop, *address, deadline, options.from, &reason);
	if (!socket) co_return failed(options, trouble_of(reason), socket.error());
	reached.socket = std::move(*socket);
	co_return std::move(reached);
}

// A handshake that has reached its end, with what it used. The handshake agreed.
struct Shaken {
	Reached server;
	std::optional<RcOffer> offer;  // only for a channel over RDMA
	Handshake handshake;
};

// Makes the client's parameters for one attempt, and the offer behind them.
using MakeParameters = std::function<std::expected<Parameters, std::string>(std::optional<RcOffer>& offer)>;

// Connects to the server and performs the handshake, again if the server was busy.
Task<Connected<Shaken>> shake_hands(
	async::Loop& loop, const ConnectOptions& options, Nanoseconds started, MakeParameters make) {
	Attempts attempts(loop, started + options.patience);
	while (true) {
		auto server = co_await reach(loop, options, started + options.patience);
		if (!server) co_return std::unexpected(server.error() + attempts.text());
		std::optional<RcOffer> offer;
		const auto ours = make(offer);
		if (!ours) co_return failed(options, ConnectTrouble::no_resources, ours.error());
		// The channel goes on with the socket over TCP, and does without it over RDMA.
		if (offer) reset_on_close(*server->socket);
		auto handshake = Handshake::client({.protection = options.protection,
											   .host = server->named.host,
											   .port = server->named.port,
											   .started = started,
											   .patience = options.patience,
											   .clear_advice = options.clear_advice},
			*ours);
		co_await drive(*server->socket, handshake);
		if (handshake.state() == Handshake::State::agreed) {
			if (options.negotiated != nullptr) *options.negotiated = handshake.agreed().negotiated;
			co_return Shaken{std::move(*server), std::move(offer), std::move(handshake)};
		}
		const HandshakeError& error = handshake.error();
		const std::string why = server->where + ": " + error.text + attempts.text();
		server->socket.reset();
		if (!error.busy || !co_await attempts.another()) co_return failed(options, trouble_of(error), why);
	}
}

}  // namespace

Task<std::optional<async::Semaphore::Permit>> permit_to_begin(async::Semaphore* handshakes) {
	std::optional<async::Semaphore::Permit> permit;
	if (handshakes != nullptr) permit.emplace(co_await handshakes->acquire());
	co_return permit;
}

Task<std::string> prove_as_client(Channel& channel, const ProofKeys& keys, Nanoseconds deadline) {
	const CloseAt timer(channel, deadline);
	const Proof proof = make_proof(keys);
	if (!co_await channel.send(proof)) co_return "the connection failed: " + channel.reason();
	const auto answer = co_await channel.receive();
	if (!answer) co_return "the server's proof failed: " + channel.reason();
	if (const auto checked = check_proof(keys, answer->bytes()); !checked)
		co_return std::string(describe(checked.error()));
	co_return std::string();
}

Nanoseconds mean_pause_after(unsigned attempts) { return first_pause << std::min(attempts - 1, pause_doublings); }

Task<bool> Attempts::another() {
	const Nanoseconds step = mean_pause_after(made_);
	const Nanoseconds pause = step / 2 + secure_random<std::uint32_t>() % step;
	if (monotonic_now() + pause >= deadline_) co_return false;
	++made_;
	co_await loop_.sleep_for(pause);
	co_return true;
}

std::string Attempts::text() const { return made_ == 1 ? "" : " (attempt " + std::to_string(made_) + ")"; }

Task<Connected<std::unique_ptr<RcChannel>>> connect(RcTransport& transport, ConnectOptions options) {
	const auto permit = co_await permit_to_begin(options.handshakes);
	const Nanoseconds started = monotonic_now();
	auto shaking = shake_hands(transport.loop(), options, started,
		[&](std::optional<RcOffer>& offer) -> std::expected<Parameters, std::string> {
			auto made = transport.offer();
			if (!made) return std::unexpected(made.error());
			offer = std::move(*made);
			return parameters_of(offer->end, options);
		});
	auto shaken = co_await std::move(shaking);
	if (!shaken) co_return std::unexpected(shaken.error());
	const std::string& where = shaken->server.where;
	const Agreed& agreed = shaken->handshake.agreed();
	auto channel = transport.connect(std::move(*shaken->offer), end_of(agreed.theirs), where);
	if (!channel) co_return failed(options, ConnectTrouble::no_resources, where + ": " + channel.error());
	const Nanoseconds deadline = started + options.patience;
	const std::string trouble = co_await prove_as_client(**channel, agreed.proof, deadline);
	if (!trouble.empty()) co_return failed(options, handshake_or_time(deadline), where + ": " + trouble);
	co_return std::move(*channel);
}

Task<Connected<std::unique_ptr<TcpChannel>>> connect_tcp(async::Loop& loop, ConnectOptions options, TcpOptions tcp) {
	const auto permit = co_await permit_to_begin(options.handshakes);
	const Nanoseconds started = monotonic_now();
	auto shaking =
		shake_hands(loop, options, started, [&](std::optional<RcOffer>&) -> std::expected<Parameters, std::string> {
			return Parameters{.role = Role::client,
				.transport = Transport::tcp,
				.shared_queue_pairs = options.shared_queue_pairs,
				.logical_channels = options.logical_channels,
				.nonce = random_nonce()};
		});
	auto shaken = co_await std::move(shaking);
	if (!shaken) co_return std::unexpected(shaken.error());
	const std::string& where = shaken->server.where;
	const ProofKeys keys = shaken->handshake.agreed().proof;
	auto channel = std::make_unique<TcpChannel>(
		loop, std::move(shaken->server.socket), shaken->handshake.release_session(), where, tcp);
	const Nanoseconds deadline = started + options.patience;
	const std::string trouble = co_await prove_as_client(*channel, keys, deadline);
	if (!trouble.empty()) co_return failed(options, handshake_or_time(deadline), where + ": " + trouble);
	co_return std::move(channel);
}

}  // namespace verbena::channel
