// A server's port: accepts TCP connections, performs the handshake with each client in a coroutine
// of its own, and delivers the channels of clients that have proved themselves.
//
// A client that has sent nothing yet costs one descriptor. At most `handshakes_max` of the clients
// that have are in their handshake at a time. The others wait in the order in which they spoke, and
// their deadline counts from the start of their own handshake.
//
// With listen_managed() clients may also connect by rdma_cm (managed.h), at the same port number.
// Such a client costs a queue pair from the start of its handshake, and counts against the same
// `handshakes_max`.
//
// Threads: all methods are called on the acceptor's loop, which may have a thread of its own, so
//   that a burst of handshakes does not slow down established channels. Channels are made and
//   delivered on the loops of their homes; each client gets the next home in turn.
// Owns: the listener, and sockets and queue pairs until they are delivered.
// Lifetime: destroyed after its coroutines have ended, or were abandoned (Loop::abandon_spawned) on
//   its own loop and on those of its homes.
// Errors: a failed handshake calls `complain` and `observe`; the port stays open.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/channel/connect.h"
#include "lib/channel/managed_events.h"

namespace verbena::channel {

// The outcome of one client's set-up, from its first byte to its proof or its failure.
struct SetupReport {
	Nanoseconds took = 0;
	std::optional<HandshakeFailure> trouble;  // none: the client is accepted
	std::optional<RefusalCode> refusal;  // with HandshakeFailure::refused

	// A word by which to count failures: the name of the refusal, or of the trouble.
	std::string_view cause() const { return refusal ? name_of(*refusal) : trouble ? name_of(*trouble) : "none"; }
};

struct AcceptorOptions {
	Protection protection;
	// The time for one handshake. A client that has connected may be silent for three times as
	// long.
	Nanoseconds patience = 10'000'000'000;
	// Handshakes at once, since a TLS session takes about 50 KiB; further clients wait for their
	// turn.
	std::size_t handshakes_max = 256;
	// TCP clients whose set-up has not ended; further ones wait in the listener's backlog.
	std::size_t accepted_max = 16'000;
	double accept_rate = 0;  // new clients a second, over TCP and rdma_cm together; 0: no limit
	// Channels at once, over RDMA and TCP; further clients are refused as `full`. 0: no limit.
	std::size_t clients_max = 0;
	TcpOptions tcp;
	// For clients over TCP whose first byte is not that of a TLS record; absent: `protection` is
	// for all. Channels over RDMA are always set up with `protection`.
	std::optional<Protection> tcp_protection;
	// The most that a client gets of logical channels and queue pairs to carry them; 0: a client
	// that asks for any is refused.
	std::uint32_t shared_queue_pairs_max = 0, logical_channels_max = 0;
	// Called for every set-up that ends, on the acceptor's loop.
	std::function<void(const SetupReport&)> observe;
};

struct AcceptorCounters {
	// `resumed` of the `agreed` ones resumed a TLS session by a ticket.
	std::uint64_t accepted = 0, agreed = 0, resumed = 0, refused = 0, failed = 0;
};

class Acceptor {
public:
	// Called on the channel's loop, with a channel whose peer has proved itself.
	using Deliver = std::function<void(std::unique_ptr<Channel>)>;
	// Called with one sentence for each failed handshake, on the acceptor's loop; for the log.
	using Complain = std::function<void(const std::string&)>;

	// A loop on which channels live, and where they are delivered. Without a transport it has no
	// RDMA.
	struct Home {
		async::Loop* loop = nullptr;
		RcTransport* transport = nullptr;
		Deliver deliver;
		// Receives the channels of clients that asked for logical channels, and what they were
		// granted; absent: `deliver` receives them too.
		std::function<void(std::unique_ptr<Channel>, const Negotiated&)> deliver_carrier = {};

		void give(std::unique_ptr<Channel> channel, const Negotiated& negotiated) const {
			if (negotiated.logical_channels > 0 && deliver_carrier) deliver_carrier(std::move(channel), negotiated);
			else deliver(std::move(channel));
		}
	};

	Acceptor(async::Loop& loop, async::Socket listener, RcTransport& transport, AcceptorOptions options,
		Deliver deliver, Complain complain);
	// At least one home.
	Acceptor(
		async::Loop& loop, async::Socket listener, std::vector<Home> homes, AcceptorOptions options, Complain complain);
	Acceptor(const Acceptor&) = delete;
	Acceptor& operator=(const Acceptor&) = delete;

	void start() { loop_.spawn(accept()); }
	// Also listens by rdma_cm, at the same address and port(). Called after start(), at most once.
	// One sentence on failure; TCP is served all the same.
	std::expected<void, std::string> listen_managed();
	// Accepts no further clients, and refuses handshakes that have not agreed yet.
	void stop();

	std::uint16_t port() const { return async::local_address(*listener_).port(); }
	const AcceptorCounters& counters() const { return counters_; }
	std::size_t under_way() const { return under_way_; }

private:
	struct Managed;
	// The results of a handshake that agreed, for the proofs on the channel.
	struct Proven {
		ProofKeys keys;
		Negotiated negotiated;
		bool resumed = false;
	};
	// A handshake that is under way, counted while this exists; the destructor starts the next one.
	class UnderWay {
	public:
		explicit UnderWay(Acceptor& acceptor) : acceptor_(acceptor) { ++acceptor_.under_way_; }
		~UnderWay();
		UnderWay(const UnderWay&) = delete;
		UnderWay& operator=(const UnderWay&) = delete;

	private:
		Acceptor& acceptor_;
	};

	// A client's place among `clients_max`: taken before the answer, kept by its channel to the
	// end.
	using ClientPlace = std::shared_ptr<void>;
	// Empty: all places are taken.
	ClientPlace take_client_place() const;

	async::Task<void> accept();
	// A new client waits until `accept_rate` lets it in.
	async::Task<void> turn();
	async::Task<void> serve(async::Socket socket);
	async::Task<bool> shake_hands(async::Socket& socket, const std::string& peer);
	async::Task<bool> refuse(async::Descriptor& socket, Handshake& handshake, RefusalCode code, std::string why);
	async::Task<bool> answer_rc(async::Descriptor& socket, Handshake& handshake, ClientPlace& seat,
		const std::string& peer, Nanoseconds started);
	async::Task<bool> answer_tcp(
		async::Socket& socket, Handshake& handshake, ClientPlace& seat, const std::string& peer, Nanoseconds started);
	// On the home's loop.
	async::Task<void> prove(const Home& home, std::unique_ptr<Channel> channel, Proven proven, Nanoseconds started);
	const Home& next_home() { return homes_[next_home_++ % homes_.size()]; }
	static Proven proven_of(const Agreed& agreed) { return {agreed.proof, agreed.negotiated, agreed.resumed}; }
	void succeed(Nanoseconds started, bool resumed);
	void fail(const std::string& peer, const HandshakeError& error, Nanoseconds started);

	// Clients that connect by rdma_cm: acceptor_managed.cc.
	async::Task<void> serve_managed(lib::ConnectionId connection, std::vector<std::byte> terms);
	async::Task<bool> begin_managed(std::shared_ptr<Managed> session, std::span<const std::byte> terms);
	async::Task<void> await_end(std::shared_ptr<Managed> session);
	// On the home's loop.
	async::Task<void> converse(const Home& home, std::shared_ptr<Managed> session, std::unique_ptr<RcChannel> channel);

	async::Loop& loop_;
	async::Socket listener_;
	std::unique_ptr<ManagedEvents> managed_;
	std::vector<Home> homes_;
	std::size_t next_home_ = 0;
	AcceptorOptions options_;
	Complain complain_;
	AcceptorCounters counters_;
	std::size_t accepted_ = 0;  // TCP clients whose set-up has not ended
	std::size_t under_way_ = 0;
	ClientPlace client_places_ = std::make_shared<char>();  // each copy is a place that is taken
	Nanoseconds next_turn_ = 0;
	async::List<async::Waiter> waiting_;  // clients that wait to begin their handshake
	async::List<async::Waiter> at_room_;  // resumed when a client gives its descriptor back
	bool stopped_ = false;
};

// The functions below are shared by the acceptor's two source files.
//
// Turns the reason why a transport makes no offer into a refusal for the client.
Refusal refusal_of(const RcTransport& transport, const std::string& why);
// Writes into our answer the logical channels that the client is granted, or returns why there are
// none for it.
std::optional<Refusal> grant_logical(const AcceptorOptions& limits, const Parameters& theirs, Parameters& ours);
// Receives and checks the client's proof, on the channel's loop. Empty: it is good.
async::Task<std::string> await_proof(Channel& channel, const ProofKeys& keys);

}  // namespace verbena::channel
