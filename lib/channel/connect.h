// Connecting a channel: TCP to a server's port, a handshake (in TLS unless somebody said --insecure), a queue pair with
// both ends' random PSNs, and over it one proof each way that it leads to whom the handshake was with. Then TCP has
// done its part and is reset, which leaves no port in TIME_WAIT.
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

// Why a connection was not made, for who counts such; the error's sentence is for the user.
enum class ConnectTrouble : std::uint8_t {
	none,
	no_descriptor,  // this process or this host has none left
	no_port,  // the address that it comes from has none left
	no_resources,  // this end has no queue pair for it
	unreachable,  // no such host, no way there, or nobody listens
	timed_out,
	handshake,  // it failed, the server refused, or somebody did not prove himself
};

struct ConnectOptions {
	Protection protection;
	std::string host;  // as the user asked for it: "server.example", "10.0.0.1:7471", "[fd00::1]"
	std::uint16_t port = 0;  // unless `host` has one
	Nanoseconds patience = 30'000'000'000;
	const async::Address* from = nullptr;  // the local address to come from; must outlive the call
	// For who connects many at once: so many set-ups at a time, from the SYN to the proof. It saves memory, and the
	// later ones resume the TLS session of the first. `patience` counts from leave to begin.
	async::Semaphore* handshakes = nullptr;
	// For a connection that is to carry logical channels: how many, and on how many queue pairs, this one among them.
	// The server may grant less, and says so in `negotiated`, which must outlive the call; or it has none, and refuses.
	std::uint32_t shared_queue_pairs = 0, logical_channels = 0;
	Negotiated* negotiated = nullptr;
	ConnectTrouble* trouble = nullptr;  // where to put that of a failure; must outlive the call
};

template <class T> using Connected = std::expected<T, std::string>;

// On the transport's loop. The error is one sentence, with what to do where there is something.
async::Task<Connected<std::unique_ptr<RcChannel>>> connect(RcTransport& transport, ConnectOptions options);

// The same server over TCP: the stream of the handshake goes on to carry the messages, in the same TLS session or in
// clear.
async::Task<Connected<std::unique_ptr<TcpChannel>>> connect_tcp(
	async::Loop& loop, ConnectOptions options, TcpOptions tcp = TcpOptions());

// A failure with its reason.
std::unexpected<std::string> failed(const ConnectOptions& options, ConnectTrouble trouble, std::string text);
ConnectTrouble trouble_of(const HandshakeError& error);
// Of what was tried until then.
ConnectTrouble handshake_or_time(Nanoseconds deadline);

// Moves a handshake's bytes over its socket until it reaches a state to act upon (asked, agreed, failed).
async::Task<void> drive(async::Descriptor& socket, Handshake& handshake);

// Closes a channel, at a time, if it still stands then: for a peer that does not prove itself.
class CloseAt final : public async::Timer {
public:
	CloseAt(Channel& channel, Nanoseconds when) : channel_(channel) { channel.loop().schedule(*this, when); }
	~CloseAt() { channel_.loop().cancel(*this); }
	void expire() override { channel_.close(); }

private:
	Channel& channel_;
};

// Of a client's set-up. Waits for leave to begin, if there are more than may shake hands at once; `handshakes` may be
// null.
async::Task<std::optional<async::Semaphore::Permit>> leave_to_begin(async::Semaphore* handshakes);
// The client's proof, and then the server's. Nothing on success, or why not.
async::Task<std::string> prove_as_client(Channel& channel, const ProofKeys& keys, Nanoseconds deadline);

// What both sides say of a queue pair that they offer, and how they read the peer's words.
Parameters parameters_of(Role role, const RcEnd& end);
// Of a client: and what it asks for.
Parameters parameters_of(const RcEnd& end, const ConnectOptions& options);
RcEnd end_of(const Parameters& parameters);

}  // namespace verbena::channel
