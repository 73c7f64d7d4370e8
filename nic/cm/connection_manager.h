// The Communication Manager (InfiniBand Architecture Specification, vol. 1, chapter 12): makes and ends connections
// between queue pairs, and finds queue pairs for datagrams, by messages that may be lost, repeated and delayed. No I/O:
// time is an argument, messages come in by handle_mad() and go out by next_outgoing(), and what the program should hear
// waits in poll_event().
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
// A connection's number is `block << 20 | n`, where the block is one that this process owns: a host finds the process
// that a message is for by it. One thread at a time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/random.h"
#include "nic/cm/connection.h"
#include "nic/cm/listeners.h"

namespace verbena::cm {

inline constexpr unsigned comm_id_block_shift = 20;
constexpr std::uint32_t block_of(CommId id) { return id.value >> comm_id_block_shift; }

struct Event {
	enum class Kind : std::uint8_t {
		request,             // `listener` is asked for a connection, which waits for reply() or reject()
		response,            // the other end agrees, and waits for confirm()
		established,
		rejected,            // status: the reason (reject_reason)
		unreachable,         // status: an errno value
		disconnected,
		timewait_exit,
		datagram_request,    // `listener` is asked for a queue pair; waits for answer()
		datagram_response,   // status: sidr_status
	};
	Kind kind;
	CommId connection;
	void* user = nullptr;  // the connection's owner; null for the requests
	void* listener = nullptr;
	int status = 0;
	Message message;  // that brought it about, where there was one
};

class ConnectionManager {
public:
	// The other end answers within so long, or it is unreachable (16 times the kernel's 4.3 s).
	static constexpr Nanoseconds patience = Nanoseconds{16} * 4'294'967'296;
	static constexpr Nanoseconds first_interval = 250'000'000, longest_interval = 4'294'967'296;
	// Asked for from whoever waits for this end's program (MRA): 4.096 us * 2^24.
	static constexpr std::uint8_t program_timeout = 24;
	// What is left of a connection may still be under way for so long.
	static constexpr Nanoseconds timewait = 512'000'000;
	// Requests that no program has answered yet, of all listeners together.
	static constexpr std::size_t pending_requests_max = 8192;

	ConnectionManager(std::uint64_t seed, Nanoseconds now) : random_(seed), timers_(now) {}
	~ConnectionManager();
	ConnectionManager(const ConnectionManager&) = delete;
	ConnectionManager& operator=(const ConnectionManager&) = delete;

	// The block from which connections take their numbers from now on. Before it, none can be made.
	void use_block(std::uint32_t block) { block_ = block; }
	bool has_block() const { return block_ != 0; }

	// Services
	// Requests for `service` to `address` (all zero: to any) go to `user`. False: somebody listens there.
	bool listen(ServiceId service, const wire::Gid& address, void* user) {
		return listeners_.add(service, address, user);
	}
	void unlisten(ServiceId service, void* user) { listeners_.remove(service, user); }
	bool listens(ServiceId service) const { return listeners_.has(service); }

	// The active end
	struct Request {
		ServiceId service;
		IpAddresses addresses;
		std::uint64_t ca_guid = 0;
		Half own;
		Transport transport = Transport::rc;
		std::uint8_t path_mtu = 3;
		std::uint8_t ack_timeout = 17;
		std::span<const std::byte> data;
	};
	CommId connect(Nanoseconds now, const Route&, const Request&, void* user);
	CommId resolve(Nanoseconds now, const Route&, const Request&, void* user);
	bool confirm(CommId);

	// The passive end
	bool reply(Nanoseconds now, CommId, const Half& own, std::uint64_t ca_guid, std::span<const std::byte> data);
	bool answer(
		Nanoseconds now, CommId, std::uint8_t status, wire::Qpn, std::uint32_t q_key, std::span<const std::byte> data);
	// The first message has come before the RTU: the connection is as good as established.
	bool establish(CommId);

	// Either end. False: the connection is in no state for it.
	bool reject(Nanoseconds now, CommId, std::uint16_t reason, std::span<const std::byte> data);
	bool disconnect(Nanoseconds now, CommId);
	// Nothing is reported about it any more. The other end is told what its state calls for.
	void destroy(Nanoseconds now, CommId);

	Connection* find(CommId);

	void handle_mad(Nanoseconds now, const Route& from, std::span<const std::byte, wire::mad_size>);
	void handle_timeouts(Nanoseconds now);
	// Asked on every pass, also of programs that never connect.
	Nanoseconds poll_timeout() const { return connections_.empty() ? never : timers_.next_expiry(); }
	// `host` has said that nobody there receives messages at all, and quoted the one of this transaction. If that is
	// one which waits for its answer, all that wait for one from that host have it: what a Communication Manager there
	// would answer, had it nobody to ask. An established connection is never touched: anybody may forge such a notice.
	void handle_refusal(Nanoseconds now, const wire::Gid& host, std::uint64_t transaction);
	// The process at the other end of this carrier has ended.
	void fail_carrier(Nanoseconds now, void* carrier);

	struct Outgoing {
		Route route;
		wire::Mad mad;
	};
	Outgoing* next_outgoing() { return outgoing_.empty() ? nullptr : &outgoing_.front(); }
	void pop_outgoing() { outgoing_.pop_front(); }

	std::optional<Event> poll_event();
	bool has_events() const { return !events_.empty(); }
	std::size_t connection_count() const { return connections_.size(); }

	struct Counters {
		std::uint64_t received = 0, sent = 0, sent_again = 0, malformed = 0, unexpected = 0, refused_busy = 0;
	};
	const Counters& counters() const { return counters_; }

private:
	// Who asked, by what it says of itself: the same again is the same request.
	struct Origin {
		std::uint32_t id;
		std::uint64_t guid;
		wire::Gid gid;
		friend auto operator<=>(const Origin&, const Origin&) = default;
	};

	Connection& create(const Route&, void* user);
	void erase(Connection&);
	void enter_timewait(Nanoseconds now, Connection&);
	void end(Nanoseconds now, Connection&, Event::Kind, int status, Message message = Rtu{});
	void report(const Connection&, Event::Kind, int status = 0, Message message = Rtu{});
	void send(const Route&, std::uint64_t transaction, const Message&);
	void send(Connection& c, const Message& message) { send(c.route, c.transaction, message); }
	void send_until_answered(Nanoseconds now, Connection&, const Message&, Nanoseconds patience);
	void send_again(Connection&);
	void send_reject(Connection&, std::uint16_t reason, std::span<const std::byte> data = {});
	void stop_sending(Connection&);
	Connection* find(CommId own, CommId others, const Route& from);
	bool may_take_request();

	void handle(Nanoseconds now, const Route& from, const Envelope&, const Req&);
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
	std::map<Origin, CommId> by_origin_;
	Listeners listeners_;
	std::size_t pending_requests_ = 0;
	std::deque<Outgoing> outgoing_;
	std::deque<Event> events_;
	Counters counters_;
};

}  // namespace verbena::cm
