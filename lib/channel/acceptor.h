// Acceptor: a server's port. Accepts TCP connections, shakes hands with each in a coroutine of its own, and hands the
// channels over.
//
// A client that has said nothing yet costs a descriptor and no more. Of those that have, so many shake hands at a time;
// the others wait in the order in which they spoke, and their deadline counts from the start of their own handshake.
//
// With listen_managed() clients may also connect by rdma_cm (managed.h), at the same port number. Such a client costs a
// queue pair from the start of its handshake on, and these are among the same so many.
//
// It may stand on a loop of its own (and a thread of its own), so that a burst of handshakes costs the established
// channels nothing; the channels are made and delivered on their homes' loops, of which each client gets the next in
// turn.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/channel/connect.h"
#include "lib/channel/managed_events.h"

namespace verbena::channel {

// How one client's set-up went, from its first word to its proof or its failure.
struct SetupReport {
	Nanoseconds took = 0;
	std::optional<HandshakeTrouble> trouble;  // none: the client is accepted
	std::optional<RefusalCode> refusal;  // of `refused`

	// A word for counting, of a failure: that of the refusal, or of the trouble.
	std::string_view cause() const { return refusal ? name_of(*refusal) : trouble ? name_of(*trouble) : "none"; }
};

struct AcceptorOptions {
	Protection protection;
	Nanoseconds patience = 10'000'000'000;  // of one handshake; three times that with a caller's silence before it
	std::size_t handshakes_max =
		256;  // under way at once: a TLS session takes some 50 KiB; whoever has said something then waits
	std::size_t accepted_max = 16'000;  // descriptors; further clients wait in the listener's backlog
	double accept_rate = 0;  // new clients a second, however they come; 0: as they come
	std::size_t clients_max =
		0;  // channels at once, over RDMA and TCP; further clients are refused as `full`. 0: no limit
	TcpOptions tcp;
	// For clients over TCP that do not begin with TLS; absent: `protection` is for all. RDMA is always set up under
	// `protection`.
	std::optional<Protection> tcp_protection;
	// What clients that ask for logical channels may have; 0: none, and such a client is refused.
	std::uint32_t shared_queue_pairs_max = 0, logical_channels_max = 0;
	// Told of every set-up that ends, on the acceptor's loop.
	std::function<void(const SetupReport&)> observe;
};

struct AcceptorCounters {
	std::uint64_t accepted = 0, agreed = 0, resumed = 0, refused = 0,
				  failed = 0;  // resumed: of the agreed, by a ticket
};

class Acceptor {
public:
	// Called on the channel's loop, with a channel whose peer has proved itself.
	using Deliver = std::function<void(std::unique_ptr<Channel>)>;
	// One sentence a failed handshake, on the acceptor's loop; for the log.
	using Complain = std::function<void(const std::string&)>;

	// Where channels live. Without a transport it serves no RDMA.
	struct Home {
		async::Loop* loop = nullptr;
		RcTransport* transport = nullptr;
		Deliver deliver;
		// Of clients that asked for logical channels, with what they get; absent: `deliver`.
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
	// After start(), at most once: at the same address, with the port that port() says. One sentence on failure; TCP is
	// served all the same.
	std::expected<void, std::string> listen_managed();
	// Nobody new; handshakes that have not agreed yet are refused.
	void stop();

	std::uint16_t port() const { return async::local_address(*listener_).port(); }
	const AcceptorCounters& counters() const { return counters_; }
	std::size_t under_way() const { return under_way_; }

private:
	struct Managed;
	// What is left of a handshake that agreed.
	struct Proven {
		ProofKeys keys;
		Negotiated negotiated;
		bool resumed = false;
	};
	// One of those that shake hands; when it goes, the next one begins.
	class UnderWay {
	public:
		explicit UnderWay(Acceptor& acceptor) : acceptor_(acceptor) { ++acceptor_.under_way_; }
		~UnderWay();
		UnderWay(const UnderWay&) = delete;
		UnderWay& operator=(const UnderWay&) = delete;

	private:
		Acceptor& acceptor_;
	};

	// A client's, from the agreement to the end of its channel, which keeps it.
	using Seat = std::shared_ptr<void>;
	// Empty: there is none left.
	Seat take_seat() const;

	async::Task<void> accept();
	// A new client waits until `accept_rate` lets it in.
	async::Task<void> turn();
	async::Task<void> serve(async::Socket socket);
	async::Task<bool> shake_hands(async::Socket& socket, const std::string& peer);
	async::Task<bool> refuse(async::Descriptor& socket, Handshake& handshake, RefusalCode code, std::string why);
	async::Task<bool> answer_rc(
		async::Descriptor& socket, Handshake& handshake, Seat& seat, const std::string& peer, Nanoseconds started);
	async::Task<bool> answer_tcp(
		async::Socket& socket, Handshake& handshake, Seat& seat, const std::string& peer, Nanoseconds started);
	// On the home's loop.
	async::Task<void> prove(const Home& home, std::unique_ptr<Channel> channel, Proven proven, Nanoseconds started);
	const Home& next_home() { return homes_[next_home_++ % homes_.size()]; }
	static Proven proven_of(const Agreed& agreed) { return {agreed.proof, agreed.negotiated, agreed.resumed}; }
	void succeed(Nanoseconds started, bool resumed);
	void fail(const std::string& peer, const HandshakeError& error, Nanoseconds started);

	// By rdma_cm; acceptor_managed.cc.
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
	std::size_t accepted_ = 0;  // of those now, with or without a first word
	std::size_t under_way_ = 0;
	Seat seats_ = std::make_shared<char>();  // each copy of it is one that is taken
	Nanoseconds next_turn_ = 0;
	async::List<async::Waiter> waiting_;  // for their handshake
	async::List<async::Waiter> at_room_;  // for the end of one that has a descriptor
	bool stopped_ = false;
};

// Of accepting, shared by its two files. Why a transport makes no offer, for the client: it is full, or something has
// run out.
Refusal refusal_of(const RcTransport& transport, const std::string& why);
// Puts into our answer what of the logical channels that a client asks for it may have, or says why it may have none.
std::optional<Refusal> grant_logical(const AcceptorOptions& limits, const Parameters& theirs, Parameters& ours);
// On the channel's loop: the client's proof. Empty: it is good.
async::Task<std::string> await_proof(Channel& channel, const ProofKeys& keys);

}  // namespace verbena::channel
