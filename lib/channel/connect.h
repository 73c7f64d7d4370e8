// Connects a channel to a server's port.
//
// Over RDMA: a TCP connection, a handshake on it (in TLS, unless Protection says in clear) that
// exchanges the parameters of a queue pair at each end with random PSNs, and then, as the first
// messages on those queue pairs, one proof each way that the peer is the one of the handshake. The
// TCP connection is reset afterwards, which leaves no port in TIME_WAIT. Over TCP, the stream of
// the handshake goes on to carry the messages.
//
// Threads: the transport's or the given loop's thread.
// Errors: one sentence for the user, with the way out where there is one; ConnectOptions::trouble
//   gets the kind, for counting.
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
	no_resources,  // this end has no queue pair, or no memory, for it
	unreachable,  // no such host, no route to it, or no process listens there
	timed_out,
	handshake,  // it failed, the server refused, or the proof of an end was missing or wrong
};

struct ConnectOptions {
	Protection protection;
	std::string host;  // as the user asked for it: "server.example", "10.0.0.1:7471", "[fd00::1]"
	std::uint16_t port = 0;  // the port, unless `host` has one
	Nanoseconds patience = 30'000'000'000;  // for the whole set-up
	// The local address to connect from, or null; must outlive the call.
	const async::Address* from = nullptr;
	// Limits the set-ups at a time, from the SYN to the proof, for programs that connect many: it
	// saves memory, and later ones resume the TLS session of the first. `patience` counts from the
	// permit.
	async::Semaphore* handshakes = nullptr;
	// For a connection that is to carry logical channels: the number of those, and of queue pairs
	// that carry them, this one included. The server may grant less, which is written to
	// `negotiated` (it must outlive the call), or refuse.
	std::uint32_t shared_queue_pairs = 0, logical_channels = 0;
	Negotiated* negotiated = nullptr;
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
// Writes `trouble` where the options ask for it, and returns the text as an error.
std::unexpected<std::string> failed(const ConnectOptions& options, ConnectTrouble trouble, std::string text);
ConnectTrouble trouble_of(const HandshakeError& error);
// The kind of a failure in the handshake or the proof: timed_out if the deadline has passed.
ConnectTrouble handshake_or_time(Nanoseconds deadline);

// Moves a handshake's bytes over its socket until the caller must act (asked, agreed or failed).
async::Task<void> drive(async::Descriptor& socket, Handshake& handshake);

// Closes a channel at a deadline, unless this is destroyed before: for a peer that does not prove
// itself in time.
class CloseAt final : public async::Timer {
public:
	CloseAt(Channel& channel, Nanoseconds when) : channel_(channel) { channel.loop().schedule(*this, when); }
	~CloseAt() { channel_.loop().cancel(*this); }
	void expire() override { channel_.close(); }

private:
	Channel& channel_;
};

// Waits for a permit to begin a set-up; without `handshakes` (null) there is nothing to wait for.
async::Task<std::optional<async::Semaphore::Permit>> permit_to_begin(async::Semaphore* handshakes);
// Sends the client's proof, then checks the server's. Empty on success, or why not.
async::Task<std::string> prove_as_client(Channel& channel, const ProofKeys& keys, Nanoseconds deadline);

// Converts between the parameters of an end and their form in the handshake.
Parameters parameters_of(Role role, const RcEnd& end);
// Likewise for a client, with the logical channels that it asks for.
Parameters parameters_of(const RcEnd& end, const ConnectOptions& options);
RcEnd end_of(const Parameters& parameters);

}  // namespace verbena::channel
