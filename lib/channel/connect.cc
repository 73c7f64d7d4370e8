#include "lib/channel/connect.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace verbena::channel {
namespace {

using async::Task;

// The time to send the last bytes of a handshake that is over and has no deadline any more.
constexpr Nanoseconds last_bytes_timeout = 2'000'000'000;

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

// A TCP connection to the server, its names, and when the attempt began.
struct Reached {
	async::Socket socket;
	async::Host named;
	std::string where;
	Nanoseconds started = 0;
};

Task<Connected<Reached>> reach(async::Loop& loop, const ConnectOptions& options) {
	auto named = async::split_host(options.host, options.port);
	if (!named) co_return failed(options, ConnectTrouble::unreachable, named.error());
	const auto address = async::resolve(named->host, named->port);
	if (!address) co_return failed(options, ConnectTrouble::unreachable, address.error());
	Reached reached{.named = std::move(*named), .where = async::to_string(*address), .started = monotonic_now()};
	int reason = 0;
	auto socket = co_await async::connect(loop, *address, reached.started + options.patience, options.from, &reason);
	if (!socket) co_return failed(options, trouble_of(reason), socket.error());
	reached.socket = std::move(*socket);
	co_return std::move(reached);
}

Handshake handshake_with(const Reached& server, const ConnectOptions& options, const Parameters& ours) {
	return Handshake::client({.protection = options.protection,
								 .host = server.named.host,
								 .port = server.named.port,
								 .started = server.started,
								 .patience = options.patience,
								 .clear_advice = options.clear_advice},
		ours);
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

Task<Connected<std::unique_ptr<RcChannel>>> connect(RcTransport& transport, ConnectOptions options) {
	const auto permit = co_await permit_to_begin(options.handshakes);
	auto server = co_await reach(transport.loop(), options);
	if (!server) co_return std::unexpected(server.error());
	reset_on_close(*server->socket);
	auto offer = transport.offer();
	if (!offer) co_return failed(options, ConnectTrouble::no_resources, offer.error());
	auto handshake = handshake_with(*server, options, parameters_of(offer->end, options));
	co_await drive(*server->socket, handshake);
	if (handshake.state() == Handshake::State::failed)
		co_return failed(options, trouble_of(handshake.error()), server->where + ": " + handshake.error().text);
	const Agreed& agreed = handshake.agreed();
	if (options.negotiated != nullptr) *options.negotiated = agreed.negotiated;
	auto channel = transport.connect(std::move(*offer), end_of(agreed.theirs), server->where);
	if (!channel) co_return failed(options, ConnectTrouble::no_resources, server->where + ": " + channel.error());
	const Nanoseconds deadline = server->started + options.patience;
	const std::string trouble = co_await prove_as_client(**channel, agreed.proof, deadline);
	if (!trouble.empty()) co_return failed(options, handshake_or_time(deadline), server->where + ": " + trouble);
	co_return std::move(*channel);
}

Task<Connected<std::unique_ptr<TcpChannel>>> connect_tcp(async::Loop& loop, ConnectOptions options, TcpOptions tcp) {
	const auto permit = co_await permit_to_begin(options.handshakes);
	auto server = co_await reach(loop, options);
	if (!server) co_return std::unexpected(server.error());
	const Parameters ours{.role = Role::client,
		.transport = Transport::tcp,
		.shared_queue_pairs = options.shared_queue_pairs,
		.logical_channels = options.logical_channels,
		.nonce = random_nonce()};
	auto handshake = handshake_with(*server, options, ours);
	co_await drive(*server->socket, handshake);
	if (handshake.state() == Handshake::State::failed)
		co_return failed(options, trouble_of(handshake.error()), server->where + ": " + handshake.error().text);
	const ProofKeys keys = handshake.agreed().proof;
	if (options.negotiated != nullptr) *options.negotiated = handshake.agreed().negotiated;
	auto channel =
		std::make_unique<TcpChannel>(loop, std::move(server->socket), handshake.release_session(), server->where, tcp);
	const Nanoseconds deadline = server->started + options.patience;
	const std::string trouble = co_await prove_as_client(*channel, keys, deadline);
	if (!trouble.empty()) co_return failed(options, handshake_or_time(deadline), server->where + ": " + trouble);
	co_return std::move(channel);
}

}  // namespace verbena::channel
