#include "lib/channel/acceptor.h"

#include <poll.h>

#include <algorithm>
#include <array>

#include "lib/async/transfer.h"
#include "lib/channel/first_message.h"

namespace verbena::channel {
namespace {

using async::Task;

// EMFILE has no wake-up, and clients that were just accepted cannot be evicted yet, so accept() is
// retried after this pause.
constexpr Nanoseconds pause_without_room = 10'000'000;

// A client may take this many times the patience with a handshake until it has sent its first
// message: until then it costs one descriptor only, and one of thousands that connect at once may
// take long to begin.
constexpr int silence_factor = 3;
constexpr Nanoseconds complaint_interval = 1'000'000'000;
// Callers that are evicted together, so that the next ones find room.
constexpr std::size_t evicted_at_once = 16;

// The home's answer to a client's parameters: a channel, or a refusal.
struct Prepared {
	std::unique_ptr<RcChannel> channel;
	Parameters ours;
	Refusal refusal;  // only without a channel
};

// Makes the queue pair, on the home's loop. It is ready to receive before the client learns of it.
Prepared prepare(RcTransport& transport, const Parameters& theirs, const std::string& peer) {
	Prepared result;
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

// Whether the first byte that the client has sent is that of a TLS handshake record (RFC 8446,
// 5.1).
bool begins_with_tls(const async::Descriptor& socket) {
	std::byte first{};
	return recv(socket.fd(), &first, 1, MSG_PEEK) == 1 && first == std::byte{22};
}

// Checks the client's proof and sends the server's. Empty on success, or why not.
Task<std::string> checked(Channel& channel, ProofKeys keys, Nanoseconds deadline) {
	const CloseAt timer(channel, deadline);
	if (std::string trouble = co_await await_proof(channel, keys); !trouble.empty()) co_return trouble;
	const Proof proof = make_proof(keys);
	if (!co_await channel.send(proof)) co_return channel.reason();
	co_return std::string();
}

async::Address peer_of(const async::Descriptor& socket) {
	async::Address address;
	address.length = sizeof address.storage;
	getpeername(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.length);
	return address;
}

}  // namespace

Described describe(const AcceptorOptions& options) {
	const auto text = [](std::uint64_t number) { return std::to_string(number); };
	const auto milliseconds = [&](Nanoseconds time) { return text(time / 1'000'000); };
	return {{"handshake_timeout_ms", milliseconds(options.patience)}, {"handshakes_max", text(options.handshakes_max)},
		{"handshake_grace_ms", milliseconds(options.handshake_grace)}, {"accepted_max", text(options.accepted_max)},
		{"tcp_buffer_max", text(options.tcp.buffer_max)}, {"tcp_dead_after_ms", text(options.tcp.dead_after_ms)},
		{"tcp_stall_timeout_ms", text(options.tcp.stall_timeout_ms)}};
}

Refusal refusal_of(const RcTransport& transport, const std::string& why) {
	const bool full = transport.channels() >= transport.options().connections_max;
	return {full ? RefusalCode::full : RefusalCode::no_resources, why};
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

Acceptor::Acceptor(async::Loop& loop, async::Socket listener, RcTransport& transport, AcceptorOptions options,
	Deliver deliver, Complain complain)
	: Acceptor(loop, std::move(listener), std::vector{Home{&transport.loop(), &transport, std::move(deliver)}},
		  std::move(options), std::move(complain)) {}

Acceptor::Acceptor(
	async::Loop& loop, async::Socket listener, std::vector<Home> homes, AcceptorOptions options, Complain complain)
	: loop_(loop),
	  listener_(std::move(listener)),
	  homes_(std::move(homes)),
	  options_(std::move(options)),
	  complain_(std::move(complain)),
	  callers_(loop, options_.accepted_max, options_.handshake_grace),
	  queued_(loop, options_.accepted_max, options_.handshake_grace),
	  handshakes_(loop, options_.handshakes_max, options_.handshake_grace) {}

void Acceptor::succeed(Nanoseconds started, bool resumed) {
	++counters_.agreed;
	counters_.resumed += resumed;
	if (options_.observe) options_.observe({.took = monotonic_now() - started, .trouble = {}, .refusal = {}});
}

void Acceptor::fail(const std::string& peer, const HandshakeError& error, Nanoseconds started) {
	++counters_.failed;
	counters_.refused += error.trouble == HandshakeFailure::refused;
	if (options_.observe)
		options_.observe({.took = monotonic_now() - started, .trouble = error.trouble, .refusal = error.refusal});
	// A shortage of the server fails one client after the other.
	const auto left_out = repetitions_.admit(error.text, monotonic_now());
	if (!left_out) return;
	complain_(peer + ": " + error.text +
		(*left_out == 0 ? "" : " (and " + std::to_string(*left_out) + " more clients before)"));
}

void Acceptor::fail_evicted(const std::string& peer, Nanoseconds started) {
	++counters_.failed;
	++counters_.evicted;
	if (options_.observe)
		options_.observe(
			{.took = monotonic_now() - started, .trouble = HandshakeFailure::evicted, .refusal = std::nullopt});
	complain_rarely(peer + ": it made no progress with its set-up, and others wanted its place");
}

void Acceptor::complain_rarely(const std::string& sentence) {
	const Nanoseconds now = monotonic_now();
	if (complained_at_ != 0 && now - complained_at_ < complaint_interval) {
		++not_complained_;
		return;
	}
	complained_at_ = now;
	const std::uint64_t others = std::exchange(not_complained_, 0);
	complain_(others == 0 ? sentence : sentence + " (and " + std::to_string(others) + " more such events before)");
}

void Acceptor::stop() {
	stopped_ = true;
	handshakes_.close();
	if (managed_) managed_->stop_listening();
	shutdown(listener_->fd(), SHUT_RDWR);  // clients are refused from now on, and accept() wakes up
}

Acceptor::ClientPlace Acceptor::take_client_place() const {
	const auto taken = static_cast<std::size_t>(client_places_.use_count() - 1);
	return options_.clients_max == 0 || taken < options_.clients_max ? client_places_ : nullptr;
}

Task<void> Acceptor::turn() {
	if (options_.accept_rate <= 0) co_return;
	const Nanoseconds mine = std::max(next_turn_, monotonic_now());
	next_turn_ = mine + static_cast<Nanoseconds>(1e9 / options_.accept_rate);
	co_await loop_.sleep_until(mine);
}

Task<void> Acceptor::accept() {
	while (!stopped_) {
		if (accepted_ >= options_.accepted_max) {
			if (!another_waits()) co_await async::Wait(*listener_, async::Wait::For::reading, never);
			else if (make_room()) co_await async::Park(at_room_);
			else co_await loop_.sleep_for(pause_without_room);
			continue;
		}
		auto socket = co_await async::accept(*listener_);
		if (stopped_) co_return;
		if (!socket) {
			// There is no descriptor left; the connection waits in the listener's backlog.
			complain_rarely(socket.error());
			if (make_room()) co_await async::Park(at_room_);
			else co_await loop_.sleep_for(pause_without_room);
			continue;
		}
		co_await turn();
		if (stopped_) co_return;
		++counters_.accepted;
		// Counted here: a coroutine that is spawned starts later, and more may be accepted before.
		loop_.spawn(serve(std::move(*socket), std::make_unique<Counted>(accepted_, loop_, at_room_)));
	}
}

bool Acceptor::make_room() {
	const std::size_t most = std::clamp<std::size_t>(options_.accepted_max / 16, 1, evicted_at_once);
	std::size_t evicted = 0;
	for (Admission* const each : {&callers_, &queued_})
		while (evicted < most && each->evict_unless_progressing(options_.patience)) ++evicted;
	return evicted > 0;
}

bool Acceptor::another_waits() {
	pollfd state{.fd = listener_->fd(), .events = POLLIN, .revents = 0};
	const bool waits = poll(&state, 1, 0) > 0;
	if (!waits) listener_->readable = false;
	return waits;
}

Task<void> Acceptor::serve(async::Socket socket, [[maybe_unused]] std::unique_ptr<Counted> accepted) {
	const async::Address address = peer_of(*socket);
	const std::string peer = async::to_string(address);
	const Source source = source_of(address.get());
	const Nanoseconds connected = monotonic_now();
	// The end of the stream is how an evicted client's coroutine learns of it.
	const auto hang_up = [&socket] {
		if (socket) shutdown(socket->fd(), SHUT_RDWR);
	};
	std::optional<Admission::Member> caller(std::in_place, callers_, source, hang_up);
	const auto first = co_await await_first_message(*socket, connected + silence_factor * options_.patience);
	if (first != FirstMessage::there && !caller->evicted()) {
		const bool silent = first == FirstMessage::none;
		fail(peer,
			{.trouble = silent ? HandshakeFailure::silent : HandshakeFailure::timed_out,
				.text = silent ? "it connected and sent nothing" : "it has not completed its first message in time",
				.refusal = {}},
			connected);
		co_return;
	}
	if (!caller->evicted()) {
		caller.emplace(queued_, source, hang_up);
		const bool room = co_await handshakes_.until_room(source);
		if (!room) co_return;  // stop() was called
	}
	if (caller->evicted()) {
		fail_evicted(peer, connected);
		co_return;
	}
	const Nanoseconds deadline = monotonic_now() + options_.patience;
	if (!co_await shake_hands(socket, peer, source, caller)) co_return;
	for (Admission* const each : {&callers_, &queued_, &handshakes_}) each->note_success(source);
	if (socket == nullptr) co_return;
	// Wait for the client to reset the TCP connection, which it does when it has the server's
	// proof.
	std::array<std::byte, 64> ignored;
	co_await async::read_some(*socket, ignored, deadline);
}

// Performs the handshake. True: it agreed, and prove() goes on with the channel; a TCP channel has
// taken the socket over. Ends `caller`, whose place the handshake's replaces.
Task<bool> Acceptor::shake_hands(
	async::Socket& socket, const std::string& peer, Source source, std::optional<Admission::Member>& caller) {
	const auto hang_up = [&socket] {
		if (socket) shutdown(socket->fd(), SHUT_RDWR);
	};
	const Admission::Member under_way(handshakes_, source, hang_up);
	caller.reset();

	const Nanoseconds started = monotonic_now();
	const bool exempt = options_.tcp_protection && !begins_with_tls(*socket);
	const Protection& protection = exempt ? *options_.tcp_protection : options_.protection;
	auto handshake = Handshake::server({.protection = protection,
		.started = started,
		.patience = options_.patience,
		.clear_advice = options_.clear_advice});
	co_await drive(*socket, handshake);
	if (handshake.state() == Handshake::State::asked) {
		const bool tcp = handshake.theirs().transport == Transport::tcp;
		ClientPlace seat = take_client_place();
		Task<bool> answer = stopped_
			? refuse(*socket, handshake, RefusalCode::shutting_down, "this server is shutting down")
			: exempt && !tcp ? refuse(*socket, handshake, RefusalCode::not_supported,
								   "this server sets up RDMA in TLS only, and the client began in clear")
			: !seat          ? refuse(*socket, handshake, RefusalCode::full, "the server is full")
			: tcp            ? answer_tcp(socket, handshake, seat, peer, started)
							 : answer_rc(*socket, handshake, seat, peer, started);
		if (co_await std::move(answer)) co_return true;
	}
	if (under_way.evicted()) fail_evicted(peer, started);
	else fail(peer, handshake.error(), started);
	co_return false;
}

Task<bool> Acceptor::refuse(async::Descriptor& socket, Handshake& handshake, RefusalCode code, std::string why) {
	handshake.refuse(code, why);
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
	if (const auto none = grant_logical(options_, handshake.theirs(), granted))
		co_return co_await refuse(socket, handshake, none->code, none->text);
	auto prepared =
		co_await async::run_on(loop_, *home.loop, [&] { return prepare(*home.transport, handshake.theirs(), peer); });
	prepared.ours.shared_queue_pairs = granted.shared_queue_pairs;
	prepared.ours.logical_channels = granted.logical_channels;
	if (prepared.channel == nullptr)
		co_return co_await refuse(socket, handshake, prepared.refusal.code, prepared.refusal.text);
	prepared.channel->keep(std::move(seat));
	handshake.answer(prepared.ours);
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
