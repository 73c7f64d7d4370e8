// SPDX-License-Identifier: Apache-2.0
// The NIC (an IBA channel adapter) as one object that does no I/O. Time is an argument and links
// are memory, so the same object runs behind the verbs of a process, on the simulator's virtual
// clock, and in a fuzzer. The adapter finds the queue pair of each packet; nic/transport has the
// protocol.
//
// A pass is the unit of work. Its caller must do this, in order:
//   1. begin_pass(now);
//   2. handle_slot() and handle_ack() for each packet that the links delivered,
//      handle_timeouts() when poll_timeout() is due,
//      transmit(qp) for each queue pair with newly posted work,
//      resume(outlet) for each outlet on which queue pairs wait for room;
//   3. finish_pass(), which writes the pending acknowledgements and responses to the outlets, but
//      not the acknowledgements that may wait. If a process exits without this step, its peer gets
//      no acknowledgement of a request that was executed, and completes it with retry_exceeded;
//   4. wake the peer of each outlet of context().take_touched(), or transmit the outlet's packets;
//   5. take the events from context().raised_queues, context().raised_events and
//      connections().poll_event().
//
// Threads: one at a time; the engine calls everything here under its lock.
// Owns: its queue pairs with their send and receive queues. Completion queues, shared receive
//   queues and outlets belong to the caller and must outlive the queue pairs that use them.
// Invariants: the adapter is neither copied nor moved, because queue pairs and timers point into
//   it. No handle_ function needs room for output: a response that finds no room stays pending in
//   its queue pair.
// Errors: a packet that fits no queue pair is dropped and counted in context().counters.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "nic/adapter/qp_table.h"
#include "nic/cm/connection_manager.h"
#include "nic/transport/context.h"

namespace verbena::adapter {

// The attributes with which a queue pair is created (ibv_create_qp(3)).
struct QpInit {
	transport::QpType type = transport::QpType::rc;
	std::uint32_t protection_domain = 0;
	queues::CompletionQueue* send_cq = nullptr;
	queues::CompletionQueue* recv_cq = nullptr;
	queues::ReceiveQueue* shared_receive_queue = nullptr;  // null: it gets a queue of its own
	// Each queue gets at least this many entries: sizes are rounded up to a power of two.
	std::uint32_t send_entries = 1;
	std::uint32_t receive_entries = 1;
	// The most segments and bytes of inline data that one work request may have.
	std::uint16_t send_segments = 1;
	std::uint16_t receive_segments = 1;
	std::uint16_t inline_bytes = 0;
	bool signal_all = false;  // every send completes with a CQE (sq_sig_all)
	void* user = nullptr;  // RaisedEvent::object of the queue pair's events
};

// Says whether finish_pass() may leave acknowledgements for a later call: those for which
// transport::ack_can_wait() is true.
enum class Acks : std::uint8_t { leave, may_wait };

// One call of ibv_modify_qp(3). Only the fields that `mask` names are used.
struct QpChange {
	std::uint32_t mask = 0;  // transport::QpAttributeMask
	transport::QpState state = transport::QpState::reset;
	transport::QpState current_state = transport::QpState::reset;
	transport::QueuePairAttributes attributes;
	std::uint32_t receive_psn = 0, send_psn = 0;
	std::uint32_t destination_qpn = 0;
	transport::Outlet* outlet = nullptr;  // the new path of a connected queue pair, with qp_av
	bool sqd_notify = false;  // raise sq_drained when the requests that were begun have completed
};

// A queue pair that is attached to a multicast group. The adapter does not use the interface, on
// which the host is a member of the group.
struct MulticastMember {
	wire::Gid group;
	transport::QueuePair* qp = nullptr;
	std::uint32_t interface_index = 0;
};

// The Communication Manager's way to a peer through this outlet. Null: no process has the service
// yet.
inline cm::Route route_through(const wire::AddressPair& addresses, transport::Outlet* outlet) {
	return {addresses, outlet, outlet && outlet->lossless ? outlet->peer : 0};
}

class ChannelAdapter {
public:
	// Memory keys and connection numbers are derived from `key_secret`, which is random, so that no
	// peer can guess them.
	explicit ChannelAdapter(std::uint64_t key_secret, Nanoseconds now = 0)
		: context_(key_secret, now), connections_(key_secret ^ 0x636d, now) {}
	ChannelAdapter(const ChannelAdapter&) = delete;
	ChannelAdapter& operator=(const ChannelAdapter&) = delete;

	transport::Context& context() { return context_; }
	const transport::Context& context() const { return context_; }
	QpTable& queue_pairs() { return table_; }
	// The Communication Manager behind queue pair 1. finish_pass() sends its messages; the carrier
	// of each cm::Route is a transport::Outlet.
	cm::ConnectionManager& connections() { return connections_; }
	const cm::ConnectionManager& connections() const { return connections_; }

	// Commands

	// Returns null if every QPN of the adapter's blocks is in use.
	transport::QueuePair* create_qp(const QpInit&);
	// Returns false, and changes nothing, if IBA 11.2.4.2 forbids the transition or an attribute,
	// or if the queue pair is not in change.current_state.
	bool modify_qp(transport::QueuePair&, const QpChange&);
	// Frees the queue pair in any state, without completions; the reference dangles afterwards. It
	// must not be a member of a multicast group.
	void destroy_qp(transport::QueuePair&);
	// Sends posted work requests as far as the window and the outlet's room allow.
	void transmit(transport::QueuePair& qp);
	// After attach_multicast(), datagrams to the group reach this queue pair too, until
	// detach_multicast() (ibv_attach_mcast(3)). False: the queue pair was attached already, or, for
	// detach_multicast(), it was not attached.
	bool attach_multicast(const MulticastMember&);
	bool detach_multicast(const wire::Gid& group, const transport::QueuePair&);
	const std::vector<MulticastMember>& multicast_members() const { return multicast_; }
	bool is_multicast_member(const transport::QueuePair&) const;

	// A pass

	void begin_pass(Nanoseconds now) { context_.now = now; }
	// A hint that a packet for this queue pair comes soon. Prefetches its state into the cache.
	void expect(wire::Qpn qpn) const {
		if (table_.count() > prefetch_queue_pairs_min) table_.prefetch(qpn);
	}
	// Handles a packet, or a run of packets, that came through the link of the outlet `from`.
	// `payload` has slot.length bytes; `addresses` are used for datagrams alone.
	void handle_slot(
		transport::Outlet& from, const wire::Slot&, const std::byte* payload, const wire::AddressPair& addresses);
	// Handles a READ response whose payload lies in a file that the peer shares
	// (docs/decisions/0016). `payload` is null if this process could not map the file. `shared_by`
	// reports whether the peer has revoked the payload meanwhile.
	void handle_shared(
		transport::Outlet& from, const wire::Slot&, const std::byte* payload, const wire::SlotReader& shared_by);
	// Handles an acknowledgement record that came through the link of the outlet `from`.
	void handle_ack(transport::Outlet& from, wire::AckRecord);
	// Handles a management datagram to queue pair 1 from `addresses.source`. The answers are sent
	// through `back`.
	void handle_management(
		transport::Outlet& back, std::span<const std::byte> datagram, const wire::AddressPair& addresses);
	// Sends a management datagram. False: the outlet has no room.
	bool send_management(transport::Outlet&, const wire::AddressPair&, const wire::Mad&);
	// Runs every timer that is due at the time of the pass.
	void handle_timeouts();
	// Lets the queue pairs that wait for room on the outlet send. The one that has waited longest
	// is the first. Returns whether one has executed a direct operation, and so made progress of
	// its own.
	bool resume(transport::Outlet&);
	// Sends pending CM messages, acknowledgements, responses and refusals as far as the outlets
	// have room. Returns true if it left acknowledgements for a later call because they may wait.
	bool finish_pass(Acks = Acks::leave);

	// True if responses wait for room on an outlet. The engine then makes another pass soon, even
	// if no packet arrives.
	bool has_pending_responses() const { return context_.responding_first != nullptr; }
	// The time at which the next timer expires, or `never`.
	Nanoseconds poll_timeout() const;

	// The peer behind this outlet has ended. Closes the outlet, fails the unfinished requests of RC
	// queue pairs on it with retry_exceeded, and ends the connections of the Communication Manager
	// through it.
	void fail_outlet(transport::Outlet&);

private:
	// With this many queue pairs or fewer, their states stay in the cache, and a prefetch would
	// only cost time.
	static constexpr std::size_t prefetch_queue_pairs_min = 64;

	void forget(transport::QueuePair&);
	void revoke_shared_payloads(transport::QueuePair&);
	void reset(transport::QueuePair&);
	// The two halves of modify_qp(): the attributes that the mask names, and the change of state.
	void set_attributes(transport::QueuePair&, const QpChange&);
	void change_state(transport::QueuePair&, transport::QpState to, bool sqd_notify);
	void send_management();
	void send_refusals();
	// handle_slot() behind the observer. Not inlined, so that without an observer it costs a jump.
	[[gnu::noinline]] void dispatch(
		transport::Outlet& from, const wire::Slot&, const std::byte* payload, const wire::AddressPair& addresses);
	[[gnu::cold, gnu::noinline]] void observe_ack(transport::Outlet& from, wire::AckRecord);
	[[gnu::always_inline]] inline void dispatch_ack(const transport::Outlet& from, wire::AckRecord);
	static void note_diagnosis(const transport::Outlet& from, transport::QueuePair*, const wire::Slot&);
	void handle_multicast(const wire::Slot&, const std::byte* payload, const wire::AddressPair& addresses);

	transport::Context context_;
	QpTable table_;
	cm::ConnectionManager connections_;
	std::vector<MulticastMember> multicast_;
	std::uint32_t created_ = 0;  // queue pairs so far
};

}  // namespace verbena::adapter
