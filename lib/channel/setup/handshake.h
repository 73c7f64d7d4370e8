// The set-up of a connection as a state machine without I/O, for either end of a TCP stream, in TLS
// or in clear.
//
//     client                                       server
//     Handshake::client(options, parameters)       Handshake::server(options)
//        bytes: take() -> the stream -> feed()        waiting
//     waiting                                ->    asked: theirs() is there; answer() or refuse()
//     agreed                                 <-    agreed
//
// Then both ends hold the same two messages and the keys of the proof (proof.h), which each end
// sends as its first message on the channel. The stream stays open until both proofs are checked;
// bytes that arrive on it after `agreed` are ignored.
//
// After each call: send what take() gives, also after a failure, so that the peer learns why; look
// at state(); and ask poll_timeout() when to call handle_timeout(). Time is an argument. The
// deadline counts from `started`, the beginning of this handshake.
//
// Threads: one at a time; it belongs to one connection.
// Owns: at most 512 bytes in clear, and about 50 KiB in TLS, whatever the peer sends. After
//   input_max bytes the handshake fails.
// Errors: the peer is untrusted: wrong input gives state `failed` and error(), never an assertion.
//   Calling a method in the wrong state is our own bug (check).
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
	Protection protection;                     // ClearText only with --insecure
	std::string host;        // client: the server's name or address, as the user gave it
	std::uint16_t port = 0;
	Nanoseconds started = 0;                   // the time now
	Nanoseconds patience = 10'000'000'000;
};

struct Agreed {
	Parameters ours, theirs;
	Negotiated negotiated;
	ProofKeys proof;
	bool resumed = false;  // by a ticket, without an exchange of certificates
};

enum class HandshakeFailure : std::uint8_t {
	not_trusted,   // TLS failed: certificates, versions, or the peer does not speak TLS
	in_clear,      // one end uses TLS and the other does not
	malformed,     // invalid parameters
	oversized,     // more bytes than a set-up may have
	refused,       // the server refused, or this server did
	timed_out,
	closed,        // the peer ended the stream too early
	silent,        // set by the acceptor only: the peer connected and sent nothing
	// Set by connect and acceptor: agreed, but the first message on the queue pair is no valid
	// proof.
	no_proof,
};
// A label for counters: "not_trusted".
std::string_view name_of(HandshakeFailure trouble);

struct HandshakeError {
	HandshakeFailure trouble = HandshakeFailure::closed;
	std::string text;  // one sentence, with the way out if there is one
	std::optional<RefusalCode> refusal;  // only if refused
};

class Handshake {
public:
	enum class State : std::uint8_t { waiting, asked, agreed, failed };
	static constexpr std::size_t input_max = 64 << 10;

	// `ours` must be valid (validate()); anything else is our own bug.
	static Handshake client(const HandshakeOptions& options, const Parameters& ours);
	static Handshake server(const HandshakeOptions& options);

	State state() const { return state_; }
	const Parameters& theirs() const;  // only in state `asked`
	const Agreed& agreed() const;  // only in state `agreed`
	const HandshakeError& error() const;  // only in state `failed`

	// Gives it bytes from the peer.
	void feed(std::span<const std::byte> received);
	// The stream has ended.
	void feed_end();
	void handle_timeout(Nanoseconds now);

	// The server's answer to theirs(), in state `asked`. If `ours` do not fit them, the answer is a
	// refusal.
	void answer(const Parameters& ours);
	void refuse(RefusalCode code, const std::string& text);

	// The TLS session, to go on with; empty in clear. Only when agreed and pending() is 0.
	std::optional<TlsSession> release_session();

	// Moves bytes for the peer into `room` and returns their number; pending() is the number that
	// is left.
	std::size_t take(std::span<std::byte> room);
	std::size_t pending() const;
	Nanoseconds poll_timeout() const;  // `never` when agreed or failed

private:
	Handshake(const HandshakeOptions& options, Role role, std::optional<TlsSession> tls);
	void send(std::vector<std::byte> message);
	void send_own_if_open();
	void feed_tls(std::span<const std::byte> received);
	void feed_clear(std::span<const std::byte> received);
	void receive(std::span<const std::byte> plain);
	void handle_message();
	void conclude(const Parameters& ours, const Parameters& theirs);
	void fail(HandshakeFailure trouble, std::string text, std::optional<RefusalCode> refusal = {});
	void fail_malformed(const ParameterError& error);
	const char* stage() const;

	Role role_;
	State state_ = State::waiting;
	Nanoseconds deadline_;
	Nanoseconds patience_;
	std::size_t input_ = 0;  // bytes fed so far
	std::optional<TlsSession> tls_;  // empty: in clear
	std::vector<std::byte> out_;  // in clear: bytes to send
	std::size_t taken_ = 0;  // bytes of out_ that were taken
	std::vector<std::byte> own_message_;  // the message that this end sent
	bool own_sent_ = false;
	std::array<std::byte, parameters_size_max> message_;  // the peer's message
	std::size_t message_size_ = 0;
	Parameters ours_, theirs_;
	std::optional<Agreed> agreed_;
	HandshakeError error_;
};

}  // namespace verbena::channel
