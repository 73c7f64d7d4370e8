// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/setup/handshake.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace verbena::channel {
namespace {

std::optional<TlsSession> client_session(const HandshakeOptions& options) {
	const auto* context = std::get_if<std::shared_ptr<const TlsContext>>(&options.protection);
	if (!context) return std::nullopt;
	return TlsSession::client(*context, options.host, options.port);
}

std::optional<TlsSession> server_session(const HandshakeOptions& options) {
	const auto* context = std::get_if<std::shared_ptr<const TlsContext>>(&options.protection);
	if (!context) return std::nullopt;
	return TlsSession::server(*context);
}

// The first byte of a TLS peer: of an alert (its answer to our bytes in clear) or of a handshake
// record (RFC 8446, 5.1).
constexpr bool speaks_tls(std::byte first) { return first == std::byte{21} || first == std::byte{22}; }

std::string seconds(Nanoseconds time) {
	const Nanoseconds milliseconds = time / 1'000'000;
	return milliseconds % 1000 ? std::to_string(milliseconds) + " ms" : std::to_string(milliseconds / 1000) + " s";
}

constexpr std::string_view busy_text = "it has too many set-ups under way: try again";

auto size_of(std::span<const std::byte> message) { return message_size(message.first<parameters_header_size>()); }

}  // namespace

std::vector<std::byte> busy_answer(bool tls) {
	if (!tls) return encode({.role = Role::server, .refusal = Refusal{RefusalCode::busy, std::string(busy_text)}});
	return std::vector(busy_alert.begin(), busy_alert.end());
}

std::string_view name_of(HandshakeFailure trouble) {
	switch (trouble) {
		case HandshakeFailure::not_trusted: return "not_trusted";
		case HandshakeFailure::in_clear: return "in_clear";
		case HandshakeFailure::malformed: return "malformed";
		case HandshakeFailure::oversized: return "oversized";
		case HandshakeFailure::refused: return "refused";
		case HandshakeFailure::timed_out: return "timed_out";
		case HandshakeFailure::closed: return "closed";
		case HandshakeFailure::silent: return "silent";
		case HandshakeFailure::evicted: return "evicted";
		case HandshakeFailure::no_proof: return "no_proof";
	}
	return "other";
}

Handshake::Handshake(const HandshakeOptions& options, Role role, std::optional<TlsSession> tls)
	: role_(role),
	  deadline_(options.patience > never - options.started ? never : options.started + options.patience),
	  patience_(options.patience),
	  clear_advice_(options.clear_advice),
	  tls_(std::move(tls)) {}

Handshake Handshake::client(const HandshakeOptions& options, const Parameters& ours) {
	check(ours.role == Role::client && !ours.refusal, "a client sends a client's parameters");
	Handshake handshake(options, Role::client, client_session(options));
	handshake.ours_ = ours;
	handshake.own_message_ = encode(ours);
	if (handshake.tls_ && handshake.tls_->state() == TlsSession::State::failed)
		handshake.fail(HandshakeFailure::not_trusted, handshake.tls_->error());
	handshake.send_own_if_open();
	return handshake;
}

Handshake Handshake::server(const HandshakeOptions& options) {
	return {options, Role::server, server_session(options)};
}

const Parameters& Handshake::theirs() const {
	check(state_ == State::asked, "the client has asked");
	return theirs_;
}

const Agreed& Handshake::agreed() const {
	check(state_ == State::agreed, "both ends agreed");
	return *agreed_;
}

const HandshakeError& Handshake::error() const {
	check(state_ == State::failed, "the handshake failed");
	return error_;
}

void Handshake::fail(HandshakeFailure trouble, std::string text, std::optional<RefusalCode> refusal) {
	if (state_ == State::failed) return;
	state_ = State::failed;
	error_ = {trouble, std::move(text), refusal, refusal == RefusalCode::busy};
}

// A server sends the reason, so that the user at the other end need not guess.
void Handshake::fail_malformed(const ParameterError& error) {
	if (role_ == Role::server) {
		std::string text = "the client's parameters are not accepted: " + error.text;
		text.resize(std::min(text.size(), refusal_text_max));
		send(encode({.role = Role::server, .refusal = Refusal{RefusalCode::malformed, text}}));
	}
	fail(HandshakeFailure::malformed, "the peer's parameters are not accepted: " + error.text);
}

void Handshake::send(std::vector<std::byte> message) {
	if (tls_) {
		if (tls_->state() == TlsSession::State::open) tls_->write(message);
		return;
	}
	out_.insert(out_.end(), message.begin(), message.end());
}

void Handshake::send_own_if_open() {
	if (role_ != Role::client || own_sent_ || state_ != State::waiting) return;
	if (tls_ && tls_->state() != TlsSession::State::open) return;
	own_sent_ = true;
	send(own_message_);
}

void Handshake::feed(std::span<const std::byte> received) {
	if (state_ == State::failed || state_ == State::agreed) return;
	input_ += received.size();
	if (input_ > input_max) {
		fail(HandshakeFailure::oversized,
			"the peer sent more than a set-up may have (" + std::to_string(input_max) + " bytes)");
		return;
	}
	if (tls_) feed_tls(received);
	else feed_clear(received);
}

void Handshake::feed_tls(std::span<const std::byte> received) {
	std::array<std::byte, parameters_size_max> plain;
	while (!received.empty()) {
		const std::size_t fed = tls_->feed(received);
		received = received.subspan(fed);
		send_own_if_open();
		std::size_t got = 0;
		while ((got = tls_->read(plain)) != 0) {
			receive(std::span(plain).first(got));
			if (state_ == State::failed || state_ == State::agreed) return;
		}
		if (tls_->state() == TlsSession::State::failed) break;
		if (fed == 0) return fail(HandshakeFailure::oversized, "the peer sends a TLS record that is too large");
	}
	if (tls_->state() == TlsSession::State::failed) {
		if (tls_->peer_busy())
			return fail(HandshakeFailure::refused, "the server refuses: " + std::string(busy_text), RefusalCode::busy);
		if (tls_->peer_in_clear())
			fail(HandshakeFailure::in_clear, std::string(tls_->error()).append(": ").append(clear_advice_));
		else fail(HandshakeFailure::not_trusted, tls_->error());
	} else if (tls_->peer_closed()) {
		feed_end();
	}
}

void Handshake::feed_clear(std::span<const std::byte> received) {
	if (message_size_ == 0 && !received.empty() && speaks_tls(received[0])) {
		if (role_ == Role::server)
			send(encode({.role = Role::server,
				.refusal =
					Refusal{RefusalCode::not_supported, "this server speaks in clear, and the client wants TLS"}}));
		fail(HandshakeFailure::in_clear,
			std::string("the peer wants TLS and this side speaks in clear: ").append(clear_advice_));
		return;
	}
	receive(received);
}

void Handshake::receive(std::span<const std::byte> plain) {
	while (!plain.empty()) {
		if (state_ == State::asked)
			return fail(
				HandshakeFailure::oversized, "the client sends more than its parameters before it was answered");
		if (state_ != State::waiting) return;
		// Once message_size_ reaches the size of the header, the check below has accepted it, so
		// its size can be read.
		const std::size_t wanted = message_size_ < parameters_header_size ? parameters_header_size : *size_of(message_);
		const auto part = plain.first(std::min(plain.size(), wanted - message_size_));
		std::ranges::copy(part, message_.begin() + message_size_);
		message_size_ += part.size();
		plain = plain.subspan(part.size());
		if (message_size_ < parameters_header_size) return;
		const auto size = size_of(message_);
		if (!size) return fail_malformed(size.error());
		if (message_size_ == *size) handle_message();
	}
}

void Handshake::handle_message() {
	const auto decoded = decode(std::span(message_).first(message_size_));
	if (!decoded) return fail_malformed(decoded.error());
	if (decoded->role == role_)
		return fail_malformed({"role", "role is the same on both ends: a client must reach a server"});
	if (role_ == Role::server) {
		theirs_ = *decoded;
		state_ = State::asked;
		return;
	}
	if (decoded->refusal)
		return fail(HandshakeFailure::refused, "the server refuses: " + decoded->refusal->text, decoded->refusal->code);
	conclude(ours_, *decoded);
}

void Handshake::answer(const Parameters& ours) {
	check(state_ == State::asked && ours.role == Role::server && !ours.refusal,
		"a server answers a client that asked, with a server's parameters");
	if (const auto good = negotiate(ours, theirs_); !good) return refuse(RefusalCode::not_supported, good.error().text);
	own_message_ = encode(ours);
	own_sent_ = true;
	conclude(ours, theirs_);
	if (state_ == State::agreed) send(own_message_);
}

void Handshake::refuse(RefusalCode code, const std::string& text) {
	check(state_ == State::asked, "a server refuses a client that asked");
	send(encode({.role = Role::server, .refusal = Refusal{code, text.substr(0, refusal_text_max)}}));
	fail(HandshakeFailure::refused, "refused: " + text, code);
}

void Handshake::conclude(const Parameters& ours, const Parameters& theirs) {
	const auto negotiated = negotiate(ours, theirs);
	if (!negotiated) return fail_malformed(negotiated.error());
	// Equal nonces: the peer reflects our own message, or it has no random numbers.
	if (ours.nonce == theirs.nonce) return fail_malformed({"nonce", "nonce is the same on both ends"});
	const std::span<const std::byte> received = std::span(message_).first(message_size_), sent = own_message_;
	const std::optional<ExporterKey> key = tls_ ? std::optional(tls_->exporter_key()) : std::nullopt;
	const bool client = role_ == Role::client;
	agreed_ = Agreed{ours, theirs, *negotiated,
		make_proof_keys(role_, key, client ? sent : received, client ? received : sent), tls_ && tls_->resumed()};
	state_ = State::agreed;
}

const char* Handshake::stage() const {
	if (tls_ && tls_->state() == TlsSession::State::handshaking) return "the TLS handshake";
	if (state_ == State::asked) return "our own answer";
	return role_ == Role::client ? "the server's answer" : "the client's parameters";
}

void Handshake::feed_end() {
	if (state_ == State::failed || state_ == State::agreed) return;
	if (tls_) tls_->feed_end();
	if (tls_ && tls_->state() == TlsSession::State::failed) fail(HandshakeFailure::closed, tls_->error());
	else
		fail(
			HandshakeFailure::closed, std::string("the peer ended the connection before ") + stage() + " was complete");
	// A server that evicts a client within TLS cannot say so: its keys are not ready. One that does
	// not trust the client, or is no server of Verbena, sends an alert or answers in clear.
	error_.busy = role_ == Role::client && tls_ && input_ > 0;
}

void Handshake::handle_timeout(Nanoseconds now) {
	if (now < poll_timeout()) return;
	fail(HandshakeFailure::timed_out,
		std::string(stage()) + " was not complete within " + seconds(patience_) +
			(input_ == 0 ? ": the peer sent nothing at all; is this the right port?" : ""));
}

Nanoseconds Handshake::poll_timeout() const {
	return state_ == State::waiting || state_ == State::asked ? deadline_ : never;
}

std::optional<TlsSession> Handshake::release_session() {
	check(state_ == State::agreed && pending() == 0, "the handshake agreed and has nothing left to send");
	return std::exchange(tls_, std::nullopt);
}

std::size_t Handshake::take(std::span<std::byte> room) {
	if (tls_) return tls_->take(room);
	const std::size_t size = std::min(room.size(), out_.size() - taken_);
	std::copy_n(out_.begin() + static_cast<std::ptrdiff_t>(taken_), size, room.begin());
	taken_ += size;
	return size;
}

std::size_t Handshake::pending() const { return tls_ ? tls_->pending() : out_.size() - taken_; }

}  // namespace verbena::channel
