// SPDX-License-Identifier: Apache-2.0
// A server's port: accepts TCP connections, performs the handshake with each client in a coroutine
// of its own, and delivers the channels of clients that have proved themselves.
//
// A client that has not sent its whole first message yet costs one descriptor, for a bounded time
// (first_message.h). Its first message asks for a handshake. At most `handshakes_max` handshakes
// are under way at a time. A client that finds no place evicts a handshake that makes no progress,
// or one of a source address that has more than its share (admission.h), or it waits; the deadline
// of each handshake counts from its own start.
//
// With listen_managed() clients may also connect by rdma_cm (managed.h), at the same port number.
// Such a client has a queue pair from the start of its handshake on, and its handshake counts
// towards `handshakes_max`.
//
// Threads: all methods are called on the acceptor's loop, which may have a thread of its own, so
//   that a burst of handshakes does not slow down established channels. Channels are made and
//   delivered on the loops of their homes; each client gets the next home in turn.
// Owns: the listener, and sockets and queue pairs until they are delivered.
// Lifetime: the acceptor must outlive its coroutines. They end, or Loop::abandon_spawned() destroys
//   them, on its own loop and on the loops of its homes.
// Errors: a failed handshake calls `complain` and `observe`; the port stays open.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/repeat_filter.h"
#include "lib/channel/admission.h"
#include "lib/channel/connect.h"
#include "lib/channel/managed_events.h"

namespace verbena::channel {

// The outcome of one client's set-up, from its first byte to its proof or its failure.
struct SetupReport {
	Nanoseconds took = 0;
	std::optional<HandshakeFailure> trouble;  // none: the client is accepted
	std::optional<RefusalCode> refusal;  // why, if `trouble` is HandshakeFailure::refused

	// Returns the word under which a failure is counted: the name of the refusal if there is one,
	// else that of the trouble, else "none".
	std::string_view cause() const { return refusal ? name_of(*refusal) : trouble ? name_of(*trouble) : "none"; }
};

struct AcceptorOptions {
	Protection protection;
	// The time for one handshake and its proofs. Before that, a TCP client may take three times
	// this long to send its first message.
	Nanoseconds patience = 10'000'000'000;
	// The most handshakes under way at once; further clients wait. A TLS session takes about
	// 50 KiB.
	std::size_t handshakes_max = 256;
	// While other clients wait, a handshake or a first message that takes longer is evicted.
	Nanoseconds handshake_grace = 500'000'000;
	// The most accepted TCP connections whose set-up has not ended. A further one evicts the oldest
	// that has not sent its first message, else the oldest that waits for its handshake, from the
	// source address that has the most of them, of those that make no progress (admission.h). If
	// all make progress, newcomers wait in the listener's backlog instead.
	std::size_t accepted_max = 16'000;
	double accept_rate = 0;  // new clients per second, over TCP and rdma_cm together; 0: no limit
	// The most channels at once, over RDMA and TCP together; 0: no limit. Further clients are
	// refused as `full`.
	std::size_t clients_max = 0;
	// Advice for the user when only one end speaks TLS; must outlive the acceptor.
	std::string_view clear_advice = insecure_advice;
	TcpOptions tcp;
	// The protection for clients over TCP whose first byte does not begin a TLS record. If absent,
	// `protection` applies to all clients. Channels over RDMA are always set up with `protection`.
	std::optional<Protection> tcp_protection;
	// The most queue pairs that carry logical channels, and the most logical channels, that one
	// client gets. If `logical_channels_max` is 0, a client that asks for logical channels is
	// refused.
	std::uint32_t shared_queue_pairs_max = 0, logical_channels_max = 0;
	// Called for every set-up that ends, on the acceptor's loop.
	std::function<void(const SetupReport&)> observe;
};

// The numbers that limit set-ups and TCP connections, for --print-config.
Described describe(const AcceptorOptions& options);

struct AcceptorCounters {
	// Clients that the acceptor took in; set-ups that succeeded, and those of them that resumed a
	// TLS session by a ticket; clients that were refused; set-ups that failed, refusals included
	// and evictions not.
	std::uint64_t accepted = 0, agreed = 0, resumed = 0, refused = 0, failed = 0;
	std::uint64_t evicted = 0;  // clients that had to make room for others, and may try again
};

class Counted;

class Acceptor {
public:
	// Called on the channel's loop, with a channel whose peer has proved itself.
	using Deliver = std::function<void(std::unique_ptr<Channel>)>;
	// Called on the acceptor's loop with one sentence for a failed handshake, for the log. Clients
	// that fail for the same reason within a second are counted in the next such sentence.
	using Complain = std::function<void(const std::string&)>;

	// A loop on which channels live, and the functions that receive them. If `transport` is null,
	// the home takes channels over TCP only.
	struct Home {
		async::Loop* loop = nullptr;
		RcTransport* transport = nullptr;
		Deliver deliver;
		// If it is set, called on `loop` for each client over RDMA that connects over TCP, with the
		// local address of its connection. Returns the transport for this client.
		std::function<RcTransport&(const async::Address&)> transport_at = {};
		// Called instead of `deliver`, if it is set, with the channel of a client that was granted
		// logical channels, and with the numbers that were granted.
		std::function<void(std::unique_ptr<Channel>, const Negotiated&)> deliver_carrier = {};

		void give(std::unique_ptr<Channel> channel, const Negotiated& negotiated) const {
			if (negotiated.logical_channels > 0 && deliver_carrier) deliver_carrier(std::move(channel), negotiated);
			else deliver(std::move(channel));
		}
	};

	Acceptor(async::Loop& loop, async::Socket listener, RcTransport& transport, AcceptorOptions options,
		Deliver deliver, Complain complain);
	// `homes` must not be empty.
	Acceptor(
		async::Loop& loop, async::Socket listener, std::vector<Home> homes, AcceptorOptions options, Complain complain);
	Acceptor(const Acceptor&) = delete;
	Acceptor& operator=(const Acceptor&) = delete;

	void start() { loop_.spawn(accept()); }
	// Also listens by rdma_cm, at the same address and port(). Call it after start(), at most once.
	// Returns one sentence on failure; clients over TCP are served all the same.
	std::expected<void, std::string> listen_managed();
	// Accepts no further clients, refuses each client whose handshake has no answer yet, and closes
	// the connections of clients that wait for a handshake.
	void stop();

	std::uint16_t port() const { return async::local_address(*listener_).port(); }
	const AcceptorCounters& counters() const { return counters_; }
	// The number of handshakes that are under way.
	std::size_t under_way() const { return handshakes_.size(); }
	// The number of TCP clients whose set-up has not ended, and of clients by rdma_cm that wait for
	// their handshake.
	std::size_t accepted() const { return accepted_; }

private:
	struct Managed;
	// The results of a handshake that agreed, for the proofs on the channel.
	struct Proven {
		ProofKeys keys;
		Negotiated negotiated;
		bool resumed = false;
	};
	// One of the `clients_max` places. A client takes it before its handshake is answered, and its
	// channel keeps it until the channel is destroyed.
	using ClientPlace = std::shared_ptr<void>;
	// Returns null if all places are taken.
	ClientPlace take_client_place() const;

	async::Task<void> accept();
	// Evicts a few clients of a source that makes no progress: of those that have not sent their
	// first message, else of those that wait for their handshake. False: there are none.
	bool make_room();
	// Waits until `accept_rate` allows another client.
	async::Task<void> turn();
	// Returns whether a connection waits in the listener's backlog.
	bool another_waits();
	async::Task<void> serve(async::Socket socket, async::Address address, std::unique_ptr<Counted> accepted);
	async::Task<bool> shake_hands(
		async::Socket& socket, const std::string& peer, Source source, std::optional<Admission::Member>& caller);
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
	void fail_evicted(const std::string& peer, Nanoseconds started);
	// Passes on at most one such sentence a second, since an attacker decides how many there are.
	void complain_rarely(const std::string& sentence);

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
	std::size_t accepted_ = 0;
	// TCP clients that have not sent their first message, those that have and wait for their
	// handshake, and handshakes under way.
	Admission callers_, queued_, handshakes_;
	RepeatFilter repetitions_;  // sentences about handshakes that failed
	Nanoseconds complained_at_ = 0;  // complain_rarely()
	std::uint64_t not_complained_ = 0;
	// Each further copy of this pointer is a place that is taken.
	ClientPlace client_places_ = std::make_shared<char>();
	Nanoseconds next_turn_ = 0;
	// accept(), while it waits until the set-up of another TCP client ends.
	async::List<async::Waiter> at_room_;
	bool stopped_ = false;
};

// The class and the functions below are shared by the acceptor's source files.

// Counts one client while it exists, and wakes the coroutines that wait for its end.
class Counted {
public:
	Counted(std::size_t& count, async::Loop& loop, async::List<async::Waiter>& at_end)
		: count_(count), loop_(loop), at_end_(at_end) {
		++count_;
	}
	~Counted() {
		--count_;
		loop_.resume_soon(at_end_);
	}
	Counted(const Counted&) = delete;

private:
	std::size_t& count_;
	async::Loop& loop_;
	async::List<async::Waiter>& at_end_;
};

// Returns the refusal for a client to which the transport could make no offer; `why` is the error
// of RcTransport::offer().
Refusal refusal_of(const RcTransport& transport, const std::string& why);
// Writes to `ours` the numbers of queue pairs and logical channels that the client is granted.
// Returns a refusal if it asks for logical channels and this server offers none.
std::optional<Refusal> grant_logical(const AcceptorOptions& limits, const Parameters& theirs, Parameters& ours);
// Receives and checks the client's proof, on the channel's loop. Returns an empty string if the
// proof is valid, else the reason for the failure.
async::Task<std::string> await_proof(Channel& channel, const ProofKeys& keys);

}  // namespace verbena::channel
