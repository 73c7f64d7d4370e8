// Acceptor: a server's port. Accepts TCP connections, shakes hands with each in a coroutine of its own, and hands the channels over.
//
// A client that has said nothing yet costs a descriptor and no more. Of those that have, so many shake hands at a time; the others wait
// in the order in which they spoke, and their deadline counts from the start of their own handshake.
//
// It may stand on a loop of its own (and a thread of its own), so that a burst of handshakes costs the established channels nothing; the
// channels are made and delivered on their homes' loops, of which each client gets the next in turn.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/channel/connect.h"

namespace verbena::channel {

struct AcceptorOptions {
	Protection protection;
	Nanoseconds patience = 10'000'000'000;  // of one handshake
	std::size_t handshakes_max = 256;       // under way at once: a TLS session takes some 50 KiB; whoever has said something then waits
	std::size_t accepted_max = 16'000;      // descriptors; further clients wait in the listener's backlog
	double accept_rate = 0;                 // new connections a second, 0: as they come
	TcpOptions tcp;
	// For clients over TCP that do not begin with TLS; absent: `protection` is for all. RDMA is always set up under `protection`.
	std::optional<Protection> tcp_protection;
};

struct AcceptorCounters {
	std::uint64_t accepted = 0, agreed = 0, resumed = 0, refused = 0, failed = 0;  // resumed: of the agreed, by a ticket
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
	};

	Acceptor(
		async::Loop& loop, async::Socket listener, RcTransport& transport, AcceptorOptions options, Deliver deliver, Complain complain);
	// At least one home.
	Acceptor(async::Loop& loop, async::Socket listener, std::vector<Home> homes, AcceptorOptions options, Complain complain);
	Acceptor(const Acceptor&) = delete;
	Acceptor& operator=(const Acceptor&) = delete;

	void start() { loop_.spawn(accept()); }
	// Nobody new; handshakes under way go on.
	void stop();

	std::uint16_t port() const { return async::local_address(*listener_).port(); }
	const AcceptorCounters& counters() const { return counters_; }
	std::size_t under_way() const { return under_way_; }

private:
	async::Task<void> accept();
	async::Task<void> serve(async::Socket socket);
	async::Task<bool> shake_hands(async::Socket& socket, const std::string& peer);
	async::Task<bool> answer_rc(async::Descriptor& socket, Handshake& handshake, const std::string& peer, Nanoseconds deadline);
	async::Task<bool> answer_tcp(async::Socket& socket, Handshake& handshake, const std::string& peer, Nanoseconds deadline);
	// On the home's loop.
	async::Task<void> prove(const Home& home, std::unique_ptr<Channel> channel, ProofKeys keys, Nanoseconds deadline);
	const Home& next_home() { return homes_[next_home_++ % homes_.size()]; }

	async::Loop& loop_;
	async::Socket listener_;
	std::vector<Home> homes_;
	std::size_t next_home_ = 0;
	AcceptorOptions options_;
	Complain complain_;
	AcceptorCounters counters_;
	std::size_t accepted_ = 0;              // of those now, with or without a first word
	std::size_t under_way_ = 0;
	async::List<async::Waiter> waiting_;    // for their handshake
	bool stopped_ = false;
};

}  // namespace verbena::channel
