// SPDX-License-Identifier: Apache-2.0
// The Communication Manager (IBA 12.6, 12.9, 12.11): makes and ends connections between queue
// pairs, and finds queue pairs for datagrams (SIDR), by messages that may be lost, repeated and
// delayed.
//
// ConnectionManager does no I/O: time is an argument, messages arrive by handle_mad() and leave by
// next_outgoing(), and poll_event() returns the events for the program.
//
//     active                                         passive
//     connect()         -- REQ -->                   Event::request
//     Event::response   <-- REP --                   reply()
//     confirm()         -- RTU -->                   Event::established
//     Event::disconnected  <-- DREQ, DREP -->        disconnect() (either end)
//
//     resolve()         -- SIDR_REQ -->              Event::datagram_request
//     Event::datagram_response  <-- SIDR_REP --      answer()
//
// A request for a service without a listener can be repeated for a short time, because the peer's
// program may be about to listen (docs/decisions/0022). Before each repetition the event
// service_lookup asks the owner of the connection for the process that has the service now.
//
// Threads: one at a time; the engine calls everything here under its lock.
// Owns: its connections. A Connection* from find() is valid until the next call that changes state.
// Invariants: a connection's number (its communication id, CommId) is `block << 20 | n`, where
//   `block` is a block of queue pair numbers that this process owns. Every process of the host can
//   receive a message on the RoCE port, and it finds the process that the message is for by this
//   block.
//  - A message reaches a connection only if it comes by the connection's carrier (the same process
//    through shared memory, or UDP between the same two addresses) and names both ends' numbers.
//    Besides, an answer must repeat its request's transaction id, and a DREQ must name this end's
//    queue pair. A sender that has not seen the connection's messages must guess all of these.
// Errors: every peer is untrusted. A malformed, unexpected or mismatched message is dropped and
//   counted.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/random.h"
#include "base/reserved_list.h"
#include "nic/cm/connection.h"
#include "nic/cm/listeners.h"

namespace verbena::cm {

inline constexpr unsigned comm_id_block_shift = 20;
// The block of queue pair numbers whose owner has the connection.
constexpr std::uint32_t block_of(CommId id) { return id.value >> comm_id_block_shift; }

// An event for the program that owns a connection or listener.
struct Event {
	enum class Kind : std::uint8_t {
		request,             // a peer asks `listener` for a connection; call reply() or reject()
		response,            // the peer has accepted with a REP; call confirm()
		established,         // at the passive end: the RTU, or establish()
		rejected,            // status: the reason (reject_reason)
		unreachable,         // no answer, or a REQ was withdrawn; status: a negative errno value
		disconnected,        // status: 0, or a negative errno value if the DREQ got no answer
		timewait_exit,       // the connection has left the timewait state
		datagram_request,    // a peer asks `listener` for a queue pair; call answer()
		datagram_response,   // status: sidr_status
		service_lookup,      // find the process that has the service; call resume() or refuse()
	};
	Kind kind;
	CommId connection;
	void* user = nullptr;  // the connection's owner; null for request and datagram_request
	void* listener = nullptr;  // the listener's owner, for request and datagram_request alone
	int status = 0;
	// The REQ, REP, REJ, SIDR_REQ or SIDR_REP that caused the event; Rtu{} for all other events.
	Message message;
};

// The field that was wrong in a message that names a connection of this end.
enum class Mismatch : std::uint8_t { carrier, address, number, transaction, queue_pair };

class ConnectionManager {
public:
	// A peer that has not answered after this time is unreachable. The kernel's rdma_cm gives up
	// after about the same time: it sends a message 16 times and waits 4.3 s after each.
	static constexpr Nanoseconds patience = Nanoseconds{16} * 4'294'967'296;
	// A message is sent again after `first_interval`, which doubles up to `longest_interval`.
	static constexpr Nanoseconds first_interval = 250'000'000, longest_interval = 4'294'967'296;
	// The MRA's service timeout, with which this end asks a peer to wait while its program decides:
	// 4.096 us * 2^24, which is 69 s.
	static constexpr std::uint8_t mra_service_timeout = 24;
	// Late packets of an ended connection may arrive for this long (state TimeWait, IBA 12.9).
	static constexpr Nanoseconds timewait = 512'000'000;
	// The limit for requests that the program has not answered yet, of all listeners together.
	// Further requests are dropped.
	static constexpr std::size_t pending_requests_max = 8192;
	// While this number of messages waits to be sent, those that belong to no connection are not
	// answered.
	static constexpr std::size_t unsent_max = 1024;

	// `seed` determines the numbers and transaction ids of the connections, unless `draw` is set.
	ConnectionManager(std::uint64_t seed, Nanoseconds now) : random_(seed), timers_(now) {}
	~ConnectionManager();
	ConnectionManager(const ConnectionManager&) = delete;
	ConnectionManager& operator=(const ConnectionManager&) = delete;

	// Without a listener, a request is repeated after `service_first_interval`, which doubles up to
	// `service_longest_interval`. A refusal after Request::service_patience is final if there were
	// at least `service_refusals_min`: on a loaded machine the peer's program may not run for a
	// while.
	static constexpr Nanoseconds service_first_interval = 1'000'000, service_longest_interval = 16'000'000;
	static constexpr unsigned service_refusals_min = 8;

	// Where peers are real: gives numbers that no peer can guess, for the connections and their
	// transaction ids. May throw, as secure_random().
	std::uint64_t (*draw)() = nullptr;
	// Called for each message that is counted in Counters::mismatched.
	void (*report_mismatch)(Mismatch) = nullptr;

	// Sets the block from which new connections take their numbers. To call before connect() and
	// resolve(); requests from peers are dropped until then.
	void use_block(std::uint32_t block) { block_ = block; }
	bool has_block() const { return block_ != 0; }

	// Services

	// From now on, requests for `service` at `address` cause events whose `listener` is `user`. All
	// zero means any address, and ::ffff:0.0.0.0 any IPv4 address. Returns false if the service has
	// a listener at this address already.
	bool listen(ServiceId service, const wire::Gid& address, void* user) {
		return listeners_.add(service, address, user);
	}
	void unlisten(ServiceId service, void* user) { listeners_.remove(service, user); }
	bool listens(ServiceId service) const { return listeners_.has(service); }

	// Each of the functions below that returns bool returns false, and changes nothing, if the
	// connection does not exist or its state does not permit the call.

	// The active end

	struct Request {
		ServiceId service;
		IpAddresses addresses;
		std::uint64_t ca_guid = 0;  // this end's
		Half own;  // this end's queue pair
		Transport transport = Transport::rc;
		std::uint8_t path_mtu = 3;  // as `enum ibv_mtu`
		std::uint8_t ack_timeout = 17;  // 4.096 us * 2^n, 5 bits
		// Private data for the peer's program: at most 56 bytes, or 180 for resolve(); the rest is
		// cut off.
		std::span<const std::byte> data;
		// The time for which the request is repeated while the service has no listener. If it is 0,
		// the first refusal is final.
		Nanoseconds service_patience = 0;
	};
	// Sends a REQ and returns the new connection's number. The outcome is one of the events
	// response, rejected and unreachable. The connection's events carry `user`. A route without a
	// carrier means that no process has the service yet; the event service_lookup follows.
	CommId connect(Nanoseconds now, const Route&, const Request&, void* user);
	// Sends a SIDR_REQ, or waits like connect(). The outcome is one of the events datagram_response
	// and unreachable.
	CommId resolve(Nanoseconds now, const Route&, const Request&, void* user);
	// After service_lookup: sends the request again, to the process behind this route.
	bool resume(Nanoseconds now, CommId, const Route&);
	// After service_lookup: no process has the service. The next event is another service_lookup
	// or, if the time for that is over, rejected or datagram_response.
	bool refuse(Nanoseconds now, CommId);
	// Sends the RTU after the event response: the connection is then established at this end.
	bool confirm(CommId);

	// The passive end

	// Accepts a request: sends a REP.
	bool reply(Nanoseconds now, CommId, const Half& own, std::uint64_t ca_guid, std::span<const std::byte> data);
	// Answers a datagram request: sends a SIDR_REP with a sidr_status and the queue pair.
	bool answer(
		Nanoseconds now, CommId, std::uint8_t status, wire::Qpn, std::uint32_t q_key, std::span<const std::byte> data);
	// To call when the queue pair has received a message before the RTU arrived. The message proves
	// that the active end is ready, so the connection becomes established (IBA 12.9).
	bool establish(CommId);

	// Either end

	// Rejects a request or a response. `reason` is one of reject_reason; a datagram request gets a
	// SIDR_REP with sidr_status::reject instead.
	bool reject(Nanoseconds now, CommId, std::uint16_t reason, std::span<const std::byte> data);
	// Sends a DREQ, or, if the peer has sent a DREQ, the DREP that answers it.
	bool disconnect(Nanoseconds now, CommId);
	// The owner gives the connection up. The owner gets no more events, and the peer gets the
	// message that the connection's state calls for (REJ, DREQ, DREP or SIDR_REP).
	void destroy(Nanoseconds now, CommId);

	// Returns null for a number without connection, or after destroy().
	Connection* find(CommId);

	// Handles a management datagram. `from` is the way back to its sender, whose address is
	// `from.addresses.destination`.
	void handle_mad(Nanoseconds now, const Route& from, std::span<const std::byte, wire::mad_size>);
	void handle_timeouts(Nanoseconds now);
	// The time of the next timer. Every pass calls this, so a program without connections pays for
	// one test only.
	Nanoseconds poll_timeout() const { return connections_.empty() ? never : timers_.next_expiry(); }
	// `host` has reported that no process there receives CM messages (ICMP port unreachable), and
	// has quoted the message with this transaction id. The report counts only if a REQ, SIDR_REQ or
	// DREQ with this id waits for an answer from `host`. Then every such message to `host` gets the
	// answer that a CM without the service would give, and is repeated accordingly. A host that
	// sees or guesses the id can forge the report, so established connections are not affected.
	void handle_refusal(Nanoseconds now, const wire::Gid& host, std::uint64_t transaction);
	// The process behind this carrier (Route::carrier, an outlet of the adapter) has ended. Ends
	// all connections through the carrier, with the events that the kernel's rdma_cm would cause by
	// the messages that it sends for a process that ends.
	void fail_carrier(Nanoseconds now, void* carrier);

	struct Outgoing {
		Route route;
		wire::Mad mad;
	};
	// The oldest message to send, or null. The pointer dangles after pop_outgoing().
	const Outgoing* next_outgoing() { return outgoing_.empty() ? nullptr : &outgoing_.front(); }
	void pop_outgoing() { outgoing_.pop(); }
	// Calls sent(message) for each message to send, the oldest first, and removes those for which
	// it returns true.
	template <class Sent> void take_outgoing(Sent&& sent) { outgoing_.erase_if(sent); }

	std::optional<Event> poll_event();
	bool has_events() const { return !events_.empty(); }
	std::size_t connection_count() const { return connections_.size(); }

	struct Counters {
		// `sent` is without the repetitions, `sent_again`. `unexpected`: messages that fit no
		// connection or not its state. `mismatched`: messages that name a connection and are not
		// its peer's (Mismatch). `refused_busy`: requests beyond pending_requests_max, and messages
		// that got no answer because of unsent_max.
		std::uint64_t received = 0, sent = 0, sent_again = 0, malformed = 0, unexpected = 0, mismatched = 0,
					  refused_busy = 0;
	};
	const Counters& counters() const { return counters_; }

private:
	// Identifies a request by its sender's comm id and CA GUID, by the carrier, and by both
	// addresses. A second request with the same origin is a repetition of the first.
	struct Origin {
		std::uint32_t id;
		std::uint64_t guid;
		std::uint64_t link;
		wire::Gid sender, receiver;
		friend auto operator<=>(const Origin&, const Origin&) = default;
	};
	// A SIDR_REQ has no CA GUID: 0.
	static Origin origin_of(CommId, std::uint64_t guid, const Route& from);

	Connection& create(const Route&, void* user);
	// Creates the connection of a request. Without memory, the request leaves no trace.
	Connection& create_for(std::map<Origin, CommId>::iterator origin, const Route&);
	void erase(Connection&);
	void forget_origin(const Connection&);
	void enter_timewait(Nanoseconds now, Connection&);
	// Ends the connection, or the attempt to make it, and reports an event of this kind.
	void end(Nanoseconds now, Connection&, Event::Kind, int status, Message message = Rtu{});
	void report(const Connection&, Event::Kind, int status = 0, Message message = Rtu{});
	void send(const Route&, std::uint64_t transaction, const Message&);
	void send(Connection& c, const Message& message) { send(c.route, c.transaction, message); }
	// Answers a message that belongs to no connection.
	void answer_stranger(const Route&, const Envelope&, const Message&);
	void send_with_retries(Nanoseconds now, Connection&, const Message&, Nanoseconds patience);
	void send_last_with_retries(Nanoseconds now, Connection&, Nanoseconds patience);
	void request_service(Nanoseconds now, Connection&, const Message& request, Nanoseconds service_patience);
	// The peer's host has refused the request of `c`, because the service has no listener. `answer`
	// is the message that says so; the owner gets it if the refusal is final.
	void handle_missing_service(Nanoseconds now, Connection& c, const Message& answer);
	void send_again(Connection&);
	void send_reject(Connection&, std::uint16_t reason, std::span<const std::byte> data = {});
	void stop_sending(Connection&);
	std::uint64_t random() { return draw ? draw() : random_(); }
	std::uint64_t new_transaction(const Connection&);
	// The connection that a message is about: `own` and `others` are the numbers that it gives for
	// the receiver and the sender. Null, and counted, if it did not come from the connection's
	// peer.
	Connection* match(const Route& from, CommId own, CommId others);
	// The REQ that a REJ withdraws whose sender never learned the receiver's number.
	Connection* find_withdrawn(const Route& from, const Rej&);
	std::nullptr_t mismatch(Mismatch);  // counts and reports it
	// Whether an answer repeats the transaction id of the current exchange. If not, counts it.
	bool is_answer(const Connection&, const Envelope&);
	bool has_room_for_request();  // if false, counts in refused_busy
	// Allocates what one message or one timeout may send and report, so that a connection whose
	// state has changed cannot lose the event. Throws std::bad_alloc before anything has changed.
	void reserve_output();

	void handle(Nanoseconds, const Route& from, const Envelope&, const Req&);
	void handle(Nanoseconds now, const Route& from, const Envelope&, const Mra&);
	void handle(Nanoseconds now, const Route& from, const Envelope&, const Rej&);
	void handle(Nanoseconds now, const Route& from, const Envelope&, const Rep&);
	void handle(Nanoseconds now, const Route& from, const Envelope&, const Rtu&);
	void handle(Nanoseconds now, const Route& from, const Envelope&, const Dreq&);
	void handle(Nanoseconds now, const Route& from, const Envelope&, const Drep&);
	void handle(Nanoseconds now, const Route& from, const Envelope&, const SidrReq&);
	void handle(Nanoseconds now, const Route& from, const Envelope&, const SidrRep&);
	void handle_timeout(Nanoseconds now, Connection&);

	Random random_;
	TimerWheel timers_;
	std::uint32_t block_ = 0;
	std::unordered_map<std::uint32_t, std::unique_ptr<Connection>> connections_;
	std::map<Origin, CommId> by_origin_;  // connections of the passive end
	Listeners listeners_;
	std::size_t pending_requests_ = 0;  // connections in req_received or sidr_req_received
	ReservedList<Outgoing> outgoing_;
	ReservedList<Event> events_;
	Counters counters_;
};

}  // namespace verbena::cm
