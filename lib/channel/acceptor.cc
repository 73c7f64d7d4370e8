// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/acceptor.h"

#include <poll.h>

#include <algorithm>
#include <array>

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

// Whether the first byte that the client has sent is that of a TLS handshake record (RFC 8446,
// 5.1).
bool begins_with_tls(const async::Descriptor& socket) {
	std::byte first{};
	return recv(socket.fd(), &first, 1, MSG_PEEK) == 1 && first == std::byte{22};
}

// Whether a set-up with this protection is in TLS.
bool is_tls(const Protection& protection) { return !std::holds_alternative<ClearText>(protection); }

// Ends the stream of a client that is evicted, from which its coroutine learns of it.
void end_stream(const async::Socket& socket) {
	if (socket) shutdown(socket->fd(), SHUT_RDWR);
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
		async::Address peer;
		auto socket = co_await async::accept(*listener_, &peer);
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
		loop_.spawn(serve(std::move(*socket), peer, std::make_unique<Counted>(accepted_, loop_, at_room_)));
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

Task<void> Acceptor::serve(
	async::Socket socket, async::Address address, [[maybe_unused]] std::unique_ptr<Counted> accepted) {
	const std::string peer = async::to_string(address);
	const Source source = source_of(address.get());
	const Nanoseconds connected = monotonic_now();
	const auto send_away = [this, &socket] {
		const bool tls = begins_with_tls(*socket) || (!options_.tcp_protection && is_tls(options_.protection));
		const auto answer = busy_answer(tls);
		send(socket->fd(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
		end_stream(socket);
	};
	std::optional<Admission::Member> caller(std::in_place, callers_, source, send_away);
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
		caller.emplace(queued_, source, send_away);
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
	const Nanoseconds started = monotonic_now();
	const bool exempt = options_.tcp_protection && !begins_with_tls(*socket);
	const Protection& protection = exempt ? *options_.tcp_protection : options_.protection;
	auto handshake = Handshake::server({.protection = protection,
		.started = started,
		.patience = options_.patience,
		.clear_advice = options_.clear_advice});
	// The handshake ends with the stream: a client that was evicted must not be answered.
	const Admission::Member under_way(handshakes_, source, [&socket, &handshake] {
		end_stream(socket);
		handshake.feed_end();
	});
	caller.reset();
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

}  // namespace verbena::channel
