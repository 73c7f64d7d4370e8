// The NIC (an IBA channel adapter) as one object that does no I/O. Time is an argument and links
// are memory, so the same object runs behind the verbs of a process, on the simulator's virtual
// clock, and in a fuzzer. It finds the queue pair of each packet; transport/ has the protocol.
//
// A pass is the unit of work. Its caller must do this, in order:
//   1. begin_pass(now);
//   2. handle_slot() and handle_ack() for each packet that the links delivered,
//      handle_timeouts() when poll_timeout() is due,
//      transmit(qp) for each queue pair with newly posted work,
//      resume(outlet) for each outlet on which queue pairs wait for room;
//   3. finish_pass(), which sends the pending acknowledgements and responses. A process that
//      exits without this step turns a success of its peer into retry_exceeded;
//   4. take the events from context().raised_queues and context().raised_events.
//
// Threads: one at a time; the engine calls everything here under its lock.
// Owns: its queue pairs with their send and receive queues. Completion queues, shared receive
//   queues and outlets belong to the caller and must outlive the queue pairs that use them.
// Invariants: neither copied nor moved, because queue pairs and timers point into it. handle_*
//   never needs room for output: a response that finds no room stays pending in its queue pair.
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
	queues::ReceiveQueue* shared_receive_queue = nullptr;
	// Each queue gets at least this many entries: sizes are rounded up to a power of two.
	std::uint32_t send_entries = 1;
	std::uint32_t receive_entries = 1;
	std::uint16_t send_segments = 1;
	std::uint16_t receive_segments = 1;
	std::uint16_t inline_bytes = 0;
	bool signal_all = false;  // every send completes with a CQE (sq_sig_all)
	void* user = nullptr;  // the object of the raised events of this queue pair
};

// One call of ibv_modify_qp(3). Only the fields that `mask` names are used.
struct QpChange {
	std::uint32_t mask = 0;  // transport::QpAttributeMask
	transport::QpState state = transport::QpState::reset;
	transport::QpState current_state = transport::QpState::reset;
	transport::QueuePairAttributes attributes;
	std::uint32_t receive_psn = 0, send_psn = 0;
	std::uint32_t destination_qpn = 0;
	transport::Outlet* outlet = nullptr;  // the new path of a connected queue pair, with qp_av
	bool sqd_notify = false;  // raise sq_drained when the started requests have completed
};

class ChannelAdapter {
public:
	// `key_secret` seeds the memory keys and connection numbers, so that no peer can guess them.
	explicit ChannelAdapter(std::uint64_t key_secret, Nanoseconds now = 0)
		: context_(key_secret, now), connections_(key_secret ^ 0x636d, now) {}
	ChannelAdapter(const ChannelAdapter&) = delete;
	ChannelAdapter& operator=(const ChannelAdapter&) = delete;

	transport::Context& context() { return context_; }
	QpTable& queue_pairs() { return table_; }
	// The Communication Manager behind queue pair 1. finish_pass() sends its messages; the carrier
	// of each cm::Route is a transport::Outlet.
	cm::ConnectionManager& connections() { return connections_; }

	// Commands

	// Returns null if every QPN of the adapter's blocks is in use.
	transport::QueuePair* create_qp(const QpInit&);
	// Returns false, and changes nothing, if IBA 11.2.4.2 forbids the transition or an attribute,
	// or if the queue pair is not in change.current_state.
	bool modify_qp(transport::QueuePair&, const QpChange&);
	// Frees the queue pair in any state, without completions; the reference dangles afterwards.
	void destroy_qp(transport::QueuePair&);
	// Sends posted work requests as far as the window and the outlet's room allow.
	void transmit(transport::QueuePair& qp);
	// Datagrams to the group also reach the queue pair, until it detaches (ibv_attach_mcast(3)).
	// False if it was attached, or for detach was not attached, before.
	bool attach_multicast(const wire::Gid& group, transport::QueuePair&);
	bool detach_multicast(const wire::Gid& group, transport::QueuePair&);

	// A pass

	void begin_pass(Nanoseconds now) { context_.now = now; }
	// A hint: a packet for that queue pair comes soon, so its state is prefetched into the cache.
	void expect(wire::Qpn qpn) const {
		if (table_.count() > prefetch_queue_pairs_min) table_.prefetch(qpn);
	}
	// Handles a packet, or a run of packets, that came through the link of the outlet `from`.
	// `payload` has slot.length bytes; `addresses` are used for datagrams alone.
	void handle_slot(
		transport::Outlet& from, const wire::Slot&, const std::byte* payload, const wire::AddressPair& addresses);
	// Handles a READ response whose payload lies in a file that the peer shares
	// (docs/decisions/0016). `payload` is null if this process could not map it.
	void handle_shared(
		transport::Outlet& from, const wire::Slot&, const std::byte* payload, const wire::SlotReader& shared_by);
	void handle_ack(transport::Outlet& from, wire::AckRecord);
	// Handles a management datagram to queue pair 1 from `addresses.source`. Its answers leave by
	// `back`.
	void handle_management(
		transport::Outlet& back, std::span<const std::byte> datagram, const wire::AddressPair& addresses);
	// Runs every timer that expires at `now` or before.
	void handle_timeouts();
	// Lets queue pairs that wait for room on the outlet send, in the order in which they waited.
	void resume(transport::Outlet&);
	// Sends pending CM messages, acknowledgements, responses and refusals as far as there is room.
	void finish_pass();

	// True if responses wait for room on an outlet, so a pass is needed even if no packet arrives.
	bool has_pending_responses() const { return context_.responding_first != nullptr; }
	// The time at which the next timer expires, or `never`.
	Nanoseconds poll_timeout() const;

	// The peer behind this outlet has died: closes the outlet, fails the unfinished requests of RC
	// queue pairs on it with retry_exceeded, and ends the connections through it.
	void fail_outlet(transport::Outlet&);

private:
	// With this many queue pairs or fewer, their state is in the cache and prefetching only costs.
	static constexpr std::size_t prefetch_queue_pairs_min = 64;

	void forget(transport::QueuePair&);
	void revoke_shared_payloads(transport::QueuePair&);
	void reset(transport::QueuePair&);
	void send_management();
	void handle_multicast(const wire::Slot&, const std::byte* payload, const wire::AddressPair& addresses);

	transport::Context context_;
	QpTable table_;
	cm::ConnectionManager connections_;
	std::vector<std::pair<wire::Gid, transport::QueuePair*>> multicast_;
};

}  // namespace verbena::adapter
