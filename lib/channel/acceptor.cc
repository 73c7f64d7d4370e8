#include "lib/channel/acceptor.h"

#include <array>

#include "lib/async/transfer.h"

namespace verbena::channel {
namespace {

using async::Task;

constexpr Nanoseconds pause_without_descriptors = 10'000'000;

// What the transport's loop makes of a client's parameters.
struct Prepared {
	std::unique_ptr<RcChannel> channel;
	Parameters ours;
	std::string refusal;
};

std::string name_of_peer(const async::Descriptor& socket) {
	async::Address address;
	address.length = sizeof address.storage;
	getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
	return async::to_string(address);
}

}  // namespace

Acceptor::Acceptor(
	async::Loop& loop, async::Socket listener, RcTransport& transport, AcceptorOptions options, Deliver deliver, Complain complain)
	: loop_(loop),
	  listener_(std::move(listener)),
	  transport_(transport),
	  options_(std::move(options)),
	  deliver_(std::move(deliver)),
	  complain_(std::move(complain)) {}

void Acceptor::stop() {
	stopped_ = true;
	shutdown(listener_->fd(), SHUT_RDWR);  // clients are refused from now on, and accept() wakes up
}

Task<void> Acceptor::accept() {
	const auto interval = options_.accept_rate > 0 ? static_cast<Nanoseconds>(1e9 / options_.accept_rate) : 0;
	Nanoseconds next = monotonic_now();
	while (!stopped_) {
		if (under_way_ >= options_.handshakes_max) {
			co_await loop_.sleep_for(pause_without_descriptors);
			continue;
		}
		if (interval > 0) {
			co_await loop_.sleep_until(next);
			next = std::max(next + interval, monotonic_now());
		}
		auto socket = co_await async::accept(*listener_);
		if (stopped_) co_return;
		if (!socket) {
			// No descriptor is left; the connection waits in the backlog until handshakes under way end.
			complain_(socket.error());
			co_await loop_.sleep_for(pause_without_descriptors);
			continue;
		}
		++counters_.accepted;
		loop_.spawn(serve(std::move(*socket)));
	}
}

Task<void> Acceptor::serve(async::Socket socket) {
	struct Count {
		std::size_t& count;
		explicit Count(std::size_t& of) : count(of) { ++count; }
		~Count() { --count; }
	} const counted(under_way_);
	const std::string peer = name_of_peer(*socket);
	const Nanoseconds started = monotonic_now();
	auto handshake = Handshake::server({.protection = options_.protection, .started = started, .patience = options_.patience});
	co_await drive(*socket, handshake);
	if (handshake.state() == Handshake::State::asked) {
		const Parameters theirs = handshake.theirs();
		auto prepared = co_await async::run_on(loop_, transport_.loop(), [&] {
			Prepared result;
			auto offer = transport_.offer();
			if (!offer) {
				result.refusal = offer.error();
				return result;
			}
			result.ours = parameters_of(Role::server, offer->end, transport_.options());
			// It is ready before the client can hear of it.
			auto channel = transport_.connect(std::move(*offer), end_of(theirs), peer);
			if (channel) result.channel = std::move(*channel);
			else result.refusal = channel.error();
			return result;
		});
		if (!prepared.channel) {
			++counters_.refused;
			handshake.refuse(RefusalCode::full, prepared.refusal);
			co_await drive(*socket, handshake);
			co_return;
		}
		handshake.answer(prepared.ours);
		const bool agreed = handshake.state() == Handshake::State::agreed;
		const std::optional<ProofKeys> keys = agreed ? std::optional(handshake.agreed().proof) : std::nullopt;
		const auto held = std::make_shared<std::unique_ptr<RcChannel>>(std::move(prepared.channel));
		transport_.loop().post([this, keys, held, deadline = started + options_.patience] {
			if (keys) transport_.loop().spawn(prove(std::move(*held), *keys, deadline));
			held->reset();  // on its own thread
		});
		co_await drive(*socket, handshake);
		if (agreed) {
			// The client resets the stream when it has its proof.
			std::array<std::byte, 64> ignored;
			co_await async::read_some(*socket, ignored, started + options_.patience);
			co_return;
		}
	}
	++counters_.failed;
	complain_(peer + ": " + handshake.error().text);
}

Task<void> Acceptor::prove(std::unique_ptr<RcChannel> channel, ProofKeys keys, Nanoseconds deadline) {
	{
		const CloseAt timer(*channel, deadline);
		const auto message = co_await channel->receive();
		if (!message || !check_proof(keys, message->bytes())) co_return;
		const Proof proof = make_proof(keys);
		if (!co_await channel->send(proof)) co_return;
	}
	deliver_(std::move(channel));
}

}  // namespace verbena::channel
