// SPDX-License-Identifier: Apache-2.0
// The handshake of a connection as a state machine without I/O, for either end, in TLS or in clear.
// Its bytes travel over a TCP stream or, with rdma_cm, as the first messages on the queue pair
// (managed.h).
//
//     client                               server
//     Handshake::client(): waiting         Handshake::server(): waiting
//        its parameters         ------->   asked: theirs() is valid; answer() or refuse()
//     agreed                    <-------      its parameters; agreed
//
// An arrow stands for take() at the sender, the stream, and feed() at the receiver.
//
// Then both ends hold the same two messages, and the keys of the proof (proof.h) that each end
// sends as its first message on the new channel. feed() ignores bytes after `agreed`. For a channel
// over TCP the stream goes on to carry its messages; otherwise the stream stays open until both
// proofs are checked.
//
// After each call the caller sends the bytes that take() returns, also after a failure, because
// they may carry its reason to the peer. Then it looks at state(), and calls handle_timeout() at
// the time that poll_timeout() returns. The handshake reads no clock; its deadline is `patience`
// after `started`.
//
// Threads: one at a time. A handshake belongs to one connection.
// Owns: memory for at most 512 bytes of input in clear, and about 50 KiB in TLS, whatever the peer
//   sends. After input_max bytes the handshake fails.
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

// Advice for the user when only one end speaks TLS, in programs that have the option --insecure.
inline constexpr std::string_view insecure_advice = "start both with --insecure, or neither";

// The settings of one handshake.
struct HandshakeOptions {
	Protection protection;  // TLS, or ClearText if the user asked for that
	std::string host;  // client: the server's name or address, as the user gave it
	std::uint16_t port = 0;  // client: the server's port, for its TLS tickets
	Nanoseconds started = 0;  // the time at which the handshake begins (monotonic)
	Nanoseconds patience = 10'000'000'000;  // the handshake fails this long after `started`
	std::string_view clear_advice = insecure_advice;  // must outlive the handshake
};

// The result of a handshake, as this end sees it.
struct Agreed {
	Parameters ours, theirs;
	Negotiated negotiated;
	ProofKeys proof;
	bool resumed = false;  // TLS resumed a session by a ticket, without certificates
};

enum class HandshakeFailure : std::uint8_t {
	not_trusted,  // TLS failed: certificates, versions, or bytes that are not TLS
	in_clear,  // one end uses TLS and the other does not
	malformed,  // invalid parameters
	oversized,  // more bytes than a set-up may have
	refused,  // the server refused the client; both ends report this
	timed_out,
	closed,  // the peer ended the stream too early
	silent,  // set by the acceptor only: the peer connected and sent nothing
	evicted,  // set by the acceptor only: the peer made no progress, and others wanted its place
	// Set by connect and acceptor: the handshake agreed, but the first message on the channel is no
	// valid proof.
	no_proof,
};
// The enumerator as a label for counters, such as "not_trusted".
std::string_view name_of(HandshakeFailure trouble);

struct HandshakeError {
	HandshakeFailure trouble = HandshakeFailure::closed;
	std::string text;  // one sentence, with what the user can do, if anything
	std::optional<RefusalCode> refusal;  // only if `trouble` is `refused`
	// At a client: the server has made room for other clients, as far as can be seen, and another
	// attempt may succeed.
	bool busy = false;
};

// The bytes that send a client away whose handshake has not begun: an alert of TLS, or in clear a
// refusal. The client's handshake fails with `busy`.
std::vector<std::byte> busy_answer(bool tls);

class Handshake {
public:
	// `asked`: at the server; it has the client's parameters and must answer.
	enum class State : std::uint8_t { waiting, asked, agreed, failed };
	static constexpr std::size_t input_max = 64 << 10;  // the most bytes that a peer may send

	// `ours` must be a client's parameters and valid (validate()); anything else is our own bug. If
	// TLS cannot begin, the new handshake is in state `failed`.
	static Handshake client(const HandshakeOptions& options, const Parameters& ours);
	static Handshake server(const HandshakeOptions& options);

	State state() const { return state_; }
	const Parameters& theirs() const;  // the client's; only in state `asked`
	const Agreed& agreed() const;  // only in state `agreed`
	const HandshakeError& error() const;  // only in state `failed`

	// Takes bytes that the peer has sent.
	void feed(std::span<const std::byte> received);
	// The stream has ended.
	void feed_end();
	// Fails the handshake if poll_timeout() is not after `now`.
	void handle_timeout(Nanoseconds now);

	// The server's answer to theirs(), in state `asked`. If `ours` and theirs() do not fit
	// together, answer() refuses the client.
	void answer(const Parameters& ours);
	// Likewise a refusal; `text` is a sentence for the user of the client.
	void refuse(RefusalCode code, const std::string& text);

	// Moves the TLS session out, for a channel that goes on with it; returns nothing in clear. Only
	// when agreed and pending() is 0.
	std::optional<TlsSession> release_session();

	// Moves bytes for the peer into `room` and returns their number; pending() is the number of
	// bytes that are left.
	std::size_t take(std::span<std::byte> room);
	std::size_t pending() const;
	Nanoseconds poll_timeout() const;  // the deadline; `never` when agreed or failed

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
	std::string_view clear_advice_;
	std::size_t input_ = 0;  // bytes fed so far
	std::optional<TlsSession> tls_;  // empty: in clear
	std::vector<std::byte> out_;  // in clear: bytes to send
	std::size_t taken_ = 0;  // bytes of out_ that were taken
	std::vector<std::byte> own_message_;  // this end's parameters, as it sends or has sent them
	bool own_sent_ = false;  // own_message_ was given to the stream
	std::array<std::byte, parameters_size_max> message_;  // the peer's message
	std::size_t message_size_ = 0;  // bytes of message_ that have arrived
	Parameters ours_, theirs_;
	std::optional<Agreed> agreed_;
	HandshakeError error_;
};

}  // namespace verbena::channel
