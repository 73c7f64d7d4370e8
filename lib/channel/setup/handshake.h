// The set-up of a connection as a state machine without I/O, on either end of a stream (TCP), in TLS or in clear:
//
//     client                                         server
//     Handshake::client(options, parameters)         Handshake::server(options)
//        bytes: take() -> the stream -> feed()          waiting
//     waiting                                  ->    asked: theirs() is there; answer(parameters) or refuse(...)
//     agreed                                   <-    agreed
//
// Both then hold the same two messages and the keys of the proof (proof.h), which each sends as its first message on
// the channel. The stream stays open until both proofs were checked; what comes on it after `agreed` is thrown away.
//
// After each call: send what take() gives (also after a failure: the peer should hear why), look at state(), and ask
// poll_timeout() when handle_timeout() wants to be called. The deadline counts from `started`, the handshake's own
// start, and not from when the listener was told to listen. Time is an argument; nothing is done by itself.
//
// Owned by one connection, used by one thread at a time. A peer can make it hold 512 bytes in clear and some 50 KiB in
// TLS, and no more than input_max bytes of it are looked at in all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/time.h"
#include "lib/channel/setup/parameters.h"
#include "lib/channel/setup/proof.h"
#include "lib/channel/setup/tls_session.h"

namespace verbena::channel {

struct HandshakeOptions {
	Protection protection;                     // of the own side; InClear only if --insecure was said
	std::string host;        // a client: whom the user asked for
	std::uint16_t port = 0;
	Nanoseconds started = 0;                   // now
	Nanoseconds patience = 10'000'000'000;
};

struct Agreed {
	Parameters ours, theirs;
	Negotiated negotiated;
	ProofKeys proof;
	bool resumed = false;  // by a ticket: no certificates were exchanged again
};

enum class HandshakeTrouble : std::uint8_t {
	not_trusted,   // TLS failed: certificates, versions, no TLS at all
	in_clear,      // one end speaks TLS and the other does not
	malformed,     // parameters that cannot be
	oversized,     // more bytes than a set-up has
	refused,       // by the server; or we refused
	timed_out,
	closed,        // the peer ended the stream too early
	silent,        // the peer connected and said nothing; known to who accepts
	no_proof,  // agreed, but whoever speaks on the queue pair does not prove that it was he; known to who connects or
	           // accepts
};
// A word for counting: "not_trusted".
std::string_view name_of(HandshakeTrouble trouble);

struct HandshakeError {
	HandshakeTrouble trouble = HandshakeTrouble::closed;
	std::string text;  // one sentence, with what to do where there is something
	std::optional<RefusalCode> refusal;  // refused: why
};

class Handshake {
public:
	enum class State : std::uint8_t { waiting, asked, agreed, failed };
	static constexpr std::size_t input_max = 64 << 10;

	// `ours` keep their limits (validate), or it is our own bug.
	static Handshake client(const HandshakeOptions& options, const Parameters& ours);
	static Handshake server(const HandshakeOptions& options);

	State state() const { return state_; }
	const Parameters& theirs() const;  // asked
	const Agreed& agreed() const;  // agreed
	const HandshakeError& error() const;  // failed

	void feed(std::span<const std::byte> received);
	// The stream ended and no more will come.
	void feed_end();
	void handle_timeout(Nanoseconds now);

	// The server's word on theirs(), in state `asked`. If `ours` do not fit them it is a refusal.
	void answer(const Parameters& ours);
	void refuse(RefusalCode code, const std::string& text);

	// Once agreed and with nothing left to take: the TLS session, if there is one, to go on with.
	std::optional<TlsSession> release_session();

	std::size_t take(std::span<std::byte> room);
	std::size_t pending() const;
	Nanoseconds poll_timeout() const;  // `never` once agreed or failed

private:
	Handshake(const HandshakeOptions& options, Role role, std::optional<TlsSession> tls);
	void send(std::vector<std::byte> message);
	void send_own_if_open();
	void feed_tls(std::span<const std::byte> received);
	void feed_clear(std::span<const std::byte> received);
	void receive(std::span<const std::byte> plain);
	void handle_message();
	void conclude(const Parameters& ours, const Parameters& theirs);
	void fail(HandshakeTrouble trouble, std::string text, std::optional<RefusalCode> refusal = {});
	void fail_malformed(const ParameterError& error);
	const char* stage() const;

	Role role_;
	State state_ = State::waiting;
	Nanoseconds deadline_;
	Nanoseconds patience_;
	std::size_t input_ = 0;  // bytes fed so far
	std::optional<TlsSession> tls_;  // none: in clear
	std::vector<std::byte> out_;  // in clear: to send
	std::size_t taken_ = 0;  // of out_
	std::vector<std::byte> own_message_;  // what we sent
	bool own_sent_ = false;
	std::array<std::byte, parameters_size_max> message_;  // the peer's
	std::size_t message_size_ = 0;
	Parameters ours_, theirs_;
	std::optional<Agreed> agreed_;
	HandshakeError error_;
};

}  // namespace verbena::channel
