// SPDX-License-Identifier: Apache-2.0
// The part of Acceptor that answers a client's handshake: with a channel of its home, or with a
// refusal; and the proofs that follow.
#include "lib/async/transfer.h"
#include "lib/channel/acceptor.h"

namespace verbena::channel {
namespace {

using async::Task;

// The home's answer to a client's parameters: a channel, or a refusal.
struct Prepared {
	std::unique_ptr<RcChannel> channel;
	Parameters ours;
	Refusal refusal;  // only without a channel
};

// Makes the queue pair, on the home's loop. It is ready to receive before the client learns of it.
Prepared prepare(RcTransport& transport, const Parameters& theirs, const std::string& peer, Nanoseconds deadline) {
	Prepared result;
	// Its time is over, and to connect a queue pair may take long.
	if (monotonic_now() >= deadline) {
		result.refusal = {RefusalCode::busy, "the server came to this client too late"};
		return result;
	}
	auto offer = transport.offer();
	if (!offer) {
		result.refusal = refusal_of(transport, offer.error());
		return result;
	}
	result.ours = parameters_of(Role::server, offer->end);
	auto channel = transport.connect(std::move(*offer), end_of(theirs), peer);
	if (channel) result.channel = std::move(*channel);
	else result.refusal = {RefusalCode::malformed, channel.error()};
	return result;
}

// Checks the client's proof and sends the server's. Empty on success, or why not.
Task<std::string> checked(Channel& channel, ProofKeys keys, Nanoseconds deadline) {
	const CloseAt timer(channel, deadline);
	if (std::string trouble = co_await await_proof(channel, keys); !trouble.empty()) co_return trouble;
	const Proof proof = make_proof(keys);
	if (!co_await channel.send(proof)) co_return channel.reason();
	co_return std::string();
}

}  // namespace

Refusal refusal_of(const RcTransport& transport, const std::string& why) {
	return {transport.full() ? RefusalCode::full : RefusalCode::no_resources, why};
}

std::optional<Refusal> grant_logical(const AcceptorOptions& limits, const Parameters& theirs, Parameters& ours) {
	if (theirs.logical_channels == 0) return {};
	if (limits.logical_channels_max == 0)
		return Refusal{
			RefusalCode::not_supported, "this server offers no logical channels, and the client asks for some"};
	ours.shared_queue_pairs = std::min(theirs.shared_queue_pairs, limits.shared_queue_pairs_max);
	ours.logical_channels = std::min(theirs.logical_channels, limits.logical_channels_max);
	return {};
}

Task<std::string> await_proof(Channel& channel, const ProofKeys& keys) {
	const auto message = co_await channel.receive();
	if (!message) co_return channel.reason().empty() ? std::string(name_of(message.error())) : channel.reason();
	if (const auto good = check_proof(keys, message->bytes()); !good) co_return std::string(describe(good.error()));
	co_return std::string();
}

Task<bool> Acceptor::refuse(async::Descriptor& socket, Handshake& handshake, RefusalCode code, std::string why) {
	// Else the client was evicted meanwhile.
	if (handshake.state() == Handshake::State::asked) handshake.refuse(code, why);
	co_await drive(socket, handshake);
	co_return false;
}

Task<bool> Acceptor::answer_rc(
	async::Descriptor& socket, Handshake& handshake, ClientPlace& seat, const std::string& peer, Nanoseconds started) {
	const Home& home = next_home();
	if (home.transport == nullptr) {
		std::string why = "this server serves TCP only, and the client asks for RDMA: connect over TCP";
		co_return co_await refuse(socket, handshake, RefusalCode::not_supported, std::move(why));
	}
	Parameters granted;
	const Parameters theirs = handshake.theirs();
	if (const auto none = grant_logical(options_, theirs, granted))
		co_return co_await refuse(socket, handshake, none->code, none->text);
	const async::Address local = home.transport_at ? async::local_address(socket) : async::Address{};
	const Nanoseconds deadline = handshake.poll_timeout();
	auto prepared = co_await async::run_on(loop_, *home.loop, [&] {
		return prepare(home.transport_at ? home.transport_at(local) : *home.transport, theirs, peer, deadline);
	});
	prepared.ours.shared_queue_pairs = granted.shared_queue_pairs;
	prepared.ours.logical_channels = granted.logical_channels;
	if (prepared.channel == nullptr)
		co_return co_await refuse(socket, handshake, prepared.refusal.code, prepared.refusal.text);
	prepared.channel->keep(std::move(seat));
	// Else the client was evicted meanwhile.
	if (handshake.state() == Handshake::State::asked) handshake.answer(prepared.ours);
	const bool agreed = handshake.state() == Handshake::State::agreed;
	const Proven proven = agreed ? proven_of(handshake.agreed()) : Proven{};
	const auto held = std::make_shared<std::unique_ptr<RcChannel>>(std::move(prepared.channel));
	home.loop->post([this, &home, agreed, proven, held, started] {
		if (agreed) home.loop->spawn(prove(home, std::move(*held), proven, started));
		held->reset();  // if it did not agree, the channel is destroyed on its own thread
	});
	co_await drive(socket, handshake);
	co_return agreed;
}

Task<bool> Acceptor::answer_tcp(
	async::Socket& socket, Handshake& handshake, ClientPlace& seat, const std::string& peer, Nanoseconds started) {
	Parameters ours{.role = Role::server, .transport = Transport::tcp, .nonce = random_nonce()};
	if (const auto none = grant_logical(options_, handshake.theirs(), ours))
		co_return co_await refuse(*socket, handshake, none->code, none->text);
	handshake.answer(ours);
	co_await drive(*socket, handshake);
	if (handshake.state() != Handshake::State::agreed) co_return false;
	struct Stream {
		int fd;
		std::optional<TlsSession> tls;
		ClientPlace seat;
	};
	const auto stream = std::make_shared<Stream>(
		Stream{.fd = socket->release(), .tls = handshake.release_session(), .seat = std::move(seat)});
	socket.reset();
	const Home& home = next_home();
	const Proven proven = proven_of(handshake.agreed());
	home.loop->post([this, &home, stream, peer, started, proven] {
		auto moved = std::make_unique<async::Descriptor>(*home.loop, stream->fd);
		auto channel =
			std::make_unique<TcpChannel>(*home.loop, std::move(moved), std::move(stream->tls), peer, options_.tcp);
		channel->keep(std::move(stream->seat));
		home.loop->spawn(prove(home, std::move(channel), proven, started));
	});
	co_return true;
}

Task<void> Acceptor::prove(const Home& home, std::unique_ptr<Channel> channel, Proven proven, Nanoseconds started) {
	const std::string trouble = co_await checked(*channel, proven.keys, started + options_.patience);
	const std::string peer = channel->path().peer;
	if (trouble.empty()) {
		loop_.post([this, started, resumed = proven.resumed] { succeed(started, resumed); });
		home.give(std::move(channel), proven.negotiated);
	} else {
		loop_.post([this, peer, trouble, started] {
			const HandshakeError error{
				.trouble = HandshakeFailure::no_proof, .text = "its proof failed: " + trouble, .refusal = {}};
			fail(peer, error, started);
		});
	}
}

}  // namespace verbena::channel
