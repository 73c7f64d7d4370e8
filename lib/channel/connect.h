// SPDX-License-Identifier: Apache-2.0
// Connects a channel to a server's port.
//
// Over RDMA, the client opens a TCP connection, and a handshake on it exchanges the parameters of
// one queue pair at each end, with random PSNs. The handshake is in TLS, unless Protection turns
// TLS off. Then the first message each way on these queue pairs is a proof that the sender took
// part in the handshake. The client resets the TCP connection afterwards, which leaves no port in
// TIME_WAIT. Over TCP, the connection of the handshake also carries the proofs and the messages.
//
// Threads: functions that take a transport, a loop or a channel run on the thread of its loop.
// A server that has too many set-ups under way sends some clients away. They try again until their
// deadline, after random pauses.
//
// Errors: a connect function returns one sentence for the user, which suggests a remedy where there
//   is one, and writes the kind of failure to ConnectOptions::trouble.
#pragma once

#include <expected>
#include <memory>
#include <string>

#include "lib/async/semaphore.h"
#include "lib/async/socket.h"
#include "lib/channel/rc_channel.h"
#include "lib/channel/setup/handshake.h"
#include "lib/channel/tcp_channel.h"

namespace verbena::channel {

// Why a connection was not made, for counting; the error's sentence is for the user.
enum class ConnectTrouble : std::uint8_t {
	none,
	no_descriptor,  // this process or this host has no file descriptor left
	no_port,  // the local address has no port left
	no_resources,  // this end could not make or connect a queue pair, or has no memory for it
	unreachable,  // no such host, no route to it, or no process listens there
	timed_out,
	handshake,  // the handshake or an end's proof failed, or the server refused this client
};

struct ConnectOptions {
	Protection protection;
	std::string host;  // as the user wrote it: "server.example", "10.0.0.1:7471", "[fd00::1]"
	std::uint16_t port = 0;  // the port, unless `host` has one
	Nanoseconds patience = 30'000'000'000;  // the time for the whole set-up
	// Advice for the user when only one end speaks TLS; must outlive the call.
	std::string_view clear_advice = insecure_advice;
	// The local address to connect from, or null; must outlive the call.
	const async::Address* from = nullptr;
	// Null, or a semaphore that limits the set-ups under way at once; must outlive the call. Each
	// set-up holds a permit from its SYN to its proof, and `patience` counts from the permit. A
	// program that makes many connections saves memory by this, and later set-ups can resume the
	// TLS session of an earlier one.
	async::Semaphore* handshakes = nullptr;
	// For a connection that is to carry logical channels: the number of queue pairs that carry them
	// together, this one included, and the number of logical channels. The server may refuse, or
	// grant fewer.
	std::uint32_t shared_queue_pairs = 0, logical_channels = 0;
	Negotiated* negotiated = nullptr;  // gets the numbers that were granted; must outlive the call
	ConnectTrouble* trouble = nullptr;  // written on a failure; must outlive the call
};

template <class T> using Connected = std::expected<T, std::string>;

// Connects an RC channel, on the transport's loop.
async::Task<Connected<std::unique_ptr<RcChannel>>> connect(RcTransport& transport, ConnectOptions options);

// Connects a channel over TCP to the same kind of server.
async::Task<Connected<std::unique_ptr<TcpChannel>>> connect_tcp(
	async::Loop& loop, ConnectOptions options, TcpOptions tcp = TcpOptions());

// The rest is shared with managed.cc and the acceptor.
//
// Writes `trouble` to options.trouble unless that is null, and returns `text` as an error.
std::unexpected<std::string> failed(const ConnectOptions& options, ConnectTrouble trouble, std::string text);
// Returns `timed_out` if the handshake timed out, and `handshake` otherwise.
ConnectTrouble trouble_of(const HandshakeError& error);
// Returns the kind of a failure of a proof or of a handshake on a channel: `timed_out` if the
// deadline has passed, and `handshake` otherwise.
ConnectTrouble handshake_or_time(Nanoseconds deadline);

// Moves a handshake's bytes over its socket until the caller must act (asked, agreed or failed).
async::Task<void> drive(async::Descriptor& socket, Handshake& handshake);

// Closes a channel at `when`, unless the CloseAt is destroyed earlier. It ends the wait for a peer
// that does not prove itself in time.
class CloseAt final : public async::Timer {
public:
	CloseAt(Channel& channel, Nanoseconds when) : channel_(channel) { channel.loop().schedule(*this, when); }
	~CloseAt() { channel_.loop().cancel(*this); }
	void expire() override { channel_.close(); }

private:
	Channel& channel_;
};

// The mean pause of a client after this number of attempts, from 1.
Nanoseconds mean_pause_after(unsigned attempts);

// The attempts of a client whose server has sent it away. The pauses between them are random, so
// that clients that were sent away together do not come back together, and grow to about a second.
class Attempts {
public:
	Attempts(async::Loop& loop, Nanoseconds deadline) : loop_(loop), deadline_(deadline) {}
	// Waits before the next attempt. False, at once: it would begin after the deadline.
	async::Task<bool> another();
	// "", or " (attempt 3)", for the end of an error's sentence.
	std::string text() const;

private:
	async::Loop& loop_;
	Nanoseconds deadline_;
	unsigned made_ = 1;
};

// Waits for a permit to begin a set-up. Returns no permit, at once, if `handshakes` is null.
async::Task<std::optional<async::Semaphore::Permit>> permit_to_begin(async::Semaphore* handshakes);
// Sends the client's proof, then checks the server's. Returns an empty string on success, else the
// reason for the failure.
async::Task<std::string> prove_as_client(Channel& channel, const ProofKeys& keys, Nanoseconds deadline);

// These functions convert between an end's parameters and their form in the handshake.
Parameters parameters_of(Role role, const RcEnd& end);
// For a client: includes the numbers of logical channels and queue pairs that it asks for.
Parameters parameters_of(const RcEnd& end, const ConnectOptions& options);
RcEnd end_of(const Parameters& parameters);

}  // namespace verbena::channel
