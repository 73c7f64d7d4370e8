// SPDX-License-Identifier: Apache-2.0
// The state of one queue pair: 256 bytes that the hot paths touch, and a cold part behind a
// pointer.
//
// This header holds data only; requester.cc, completer.cc, responder.cc and datagram.cc act on it.
// The requester has two cache lines, the responder the other two. Requester and completer share the
// requests in flight: PSNs from `una` up to `next_psn`, WQEs from `sq_tail` up to `sq_next`.
//
// Threads: used under the engine's lock, with one exception: a thread that posts holds `sq_lock`,
//   writes the WQEs from `sq_head` on, and then advances `sq_head`.
// Owns: through `cold`, the send ring and, unless the QP uses an SRQ, the receive queue. Completion
//   queues, outlets and shared receive queues belong to others and outlive their use here.
// Lifetime: owned by one adapter (QpTable); neither copied nor moved.
// Invariants: una <= next_psn; sq_tail, sq_next and sq_head follow each other in this order, modulo
//   2^32.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/spin_lock.h"
#include "base/time.h"
#include "base/timer_wheel.h"
#include "nic/memory/key_table.h"
#include "nic/queues/completion_queue.h"
#include "nic/queues/receive_queue.h"
#include "nic/queues/work_request.h"
#include "nic/transport/outlet.h"
#include "nic/transport/qp_state.h"
#include "nic/wire/diagnosis.h"
#include "nic/wire/numbers.h"

namespace verbena::transport {

// An absolute packet sequence number; a packet carries the low 24 bits (wire::nearest restores it).
// The adapter starts each sequence at 2^32 plus the PSN that modify_qp gives.
using Psn = std::uint64_t;

// Bits: why a requester does not send although it has WQEs.
enum Blocked : std::uint8_t {
	blocked_ring = 1,  // its outlet's ring is full; the QP is on the outlet's waiting list
	blocked_rnr = 2,  // a pause after an RNR NAK, or while the peer has no such QP; a timer ends it
	// The window is full, or a direct operation awaits the end of those in the ring (direct.h). The
	// next acknowledgement unblocks it.
	blocked_window = 4,
	blocked_held = 8,  // an observer holds the requests back, and clears the bit (nic/adversary)
};

// See QueuePair::messages_to_acknowledge.
inline constexpr std::uint8_t several_messages = 2;

// Bits: the acknowledgement that a responder has yet to send. READ and atomic responses are in
// `pending` instead.
enum PendingAnswer : std::uint8_t { ack_none = 0, ack_pending = 1, nak_pending = 2 };

// The kind of message of which a responder has received a part. `discard` (UC only): drop packets
// until the next FIRST or ONLY.
enum class InMessage : std::uint8_t { none, send, write, discard };

// A READ or atomic that was accepted and whose response has not been sent completely.
struct PendingResponse {
	Psn psn;  // the next response packet's
	std::uint32_t rkey;
	std::uint64_t address;  // READ: where the next byte to send lies
	std::uint32_t remaining;  // READ: bytes still to send
	std::uint32_t msn;
	std::uint64_t result;  // atomic: the value before the operation
	bool atomic;
	bool begun;  // READ: the first response packet has been sent
	bool duplicate;  // a repeated request; does not count against max_dest_rd_atomic
};

// The result of an executed atomic, kept to answer its duplicates (IBA 9.4.5).
struct AtomicResult {
	Psn psn = ~Psn{0};
	std::uint64_t original = 0;
};

// Attributes as modify_qp sets them and ibv_query_qp(3) returns them.
struct QueuePairAttributes {
	std::uint8_t access = 0;  // remote_write | remote_read | remote_atomic
	std::uint8_t path_mtu = 5;  // enum ibv_mtu
	std::uint8_t timeout = 0;  // 4.096 us * 2^timeout; 0: no limit
	std::uint8_t retry_count = 7;
	std::uint8_t rnr_retry = 7;  // 7: no limit
	std::uint8_t min_rnr_timer = 0;  // timer code of an RNR NAK (rnr_pause in retry_timer.h)
	std::uint8_t max_rd_atomic = 1;
	std::uint8_t max_dest_rd_atomic = 1;
	std::uint32_t q_key = 0;
	std::uint16_t pkey_index = 0;
	std::uint8_t source_gid[16] = {};
	std::uint8_t destination_gid[16] = {};
};

// State for outlets that can lose packets; recovery.h explains it. No PSN is ever 0, so 0 means
// none.
struct Recovery {
	// Requester
	Psn sent_end = 0;  // one past the highest PSN ever sent; after a rewind, next_psn is smaller
	Psn timed_psn = 0;  // its acknowledgement gives a round-trip sample, measured from `timed_at`
	Psn probe_end = 0;  // a probe may send up to here even if the window is full
	Psn resent_psn = 0;  // where the last retransmission began, at `resent_at`
	Nanoseconds timed_at = 0, resent_at = 0;
	Nanoseconds waiting_since = 0;  // the last progress of `una`, or the start of the wait
	std::uint8_t probes = 0;  // probes sent since `waiting_since`
	std::uint32_t in_flight = 0;  // bytes, as counted in the outlet's `in_flight` and `senders`
	// The READ at sq_next was requested up to message_offset and already counts in reads_in_flight.
	bool read_continues = false;
	// Responder
	bool nak_repeated = false;  // the last NAK must not give a round-trip sample
	Nanoseconds nak_at = 0;  // when the last NAK for the current gap was sent; 0: none
};

// Requester: a NAK that would end the connection and may be forged (doubt.h).
struct Doubt {
	Psn psn = 0;  // the request that it refuses; 0: there is no such NAK
	queues::Status status = queues::Status::success;  // the request's, if the NAK is confirmed
	bool forgery_seen = false;  // since the QP was reset
	Nanoseconds look_at = never;  // when to look for an acknowledgement
	Nanoseconds distance = 0;  // to the next look
	Nanoseconds believe_at = 0;
	// RNR NAKs are believed from then on, as long as `una` is una_at_rnr; 0: retries are left.
	Nanoseconds believe_rnr_at = 0;
};

// The rarely used part. It is also the QP's entry in the adapter's timer wheel.
struct ColdQueuePair : TimerEntry {
	struct QueuePair* qp = nullptr;
	void* user = nullptr;  // the verbs object; the transport only passes it on in events
	std::uint32_t protection_domain = 0;
	std::uint32_t created = 0;  // its number in the order of creation, from 1
	QueuePairAttributes attributes;
	std::uint16_t send_segments_max = 1;
	std::uint16_t inline_max = 0;

	Recovery recovery;

	// Requester
	std::uint8_t retries_left = 7, rnr_retries_left = 7;
	bool timer_armed = false;
	bool rewound_for_gap = false;  // the requester acted on an implied NAK; cleared by progress
	bool draining = false;  // SQD: raise sq_drained once the begun requests have completed
	std::uint32_t sq_begun = 0;  // SQD: one past the last WQE that was begun (note_begun)
	std::uint32_t direct_offset = 0;  // bytes of WQE sq_next that were moved directly (direct.h)
	// The PSNs at which modify_qp started both sequences; 24 bits.
	std::uint32_t first_send_psn = 0, first_receive_psn = 0;
	// `una` when the timer or an RNR pause was last set; if it differs, the retry counts start
	// anew.
	Psn una_at_timer = ~Psn{0}, una_at_rnr = ~Psn{0};
	QueuePair* next_doorbell = nullptr;  // the engine's list of QPs with posted work
	Outlet* waiting_on = nullptr;  // the outlet on whose waiting list this QP is (blocked_ring)

	// Responder
	std::vector<PendingResponse> pending;  // ring; half for new requests, half for duplicates
	std::uint32_t pending_first = 0, pending_count = 0;
	std::vector<AtomicResult> atomic_results;  // ring of max_dest_rd_atomic entries
	std::uint32_t atomic_next = 0;  // counts executed atomics
	std::unique_ptr<std::byte[]> receive_copy;  // the receive WQE of a message of several slots
	std::uint32_t write_length = 0;  // DMA length of the WRITE in progress
	bool communication_established = false;  // the event was raised
	bool last_wqe_reached = false;  // the event was raised

	std::unique_ptr<std::byte[]> send_ring;
	std::unique_ptr<queues::ReceiveQueue> own_receive_queue;  // null: the QP uses an SRQ

	// Requester: the peer's reason for its last NAK, if the peer is on this host and sent it.
	std::unique_ptr<wire::Diagnosis> diagnosis;

	Doubt doubt;  // last, so that the parts above keep their cache lines
};

struct alignas(64) QueuePair {
	// Requester
	SpinLock sq_lock;
	std::atomic<std::uint32_t> sq_head{0};  // one past the last WQE posted
	std::uint32_t sq_next = 0;  // the next WQE to send, or the one partly sent
	std::atomic<std::uint32_t> sq_tail{0};  // the oldest WQE not completed
	std::byte* sq = nullptr;
	std::uint32_t sq_mask = 0;
	std::uint16_t sq_stride = 0;
	std::uint8_t mtu_shift = 10;
	QpType type = QpType::rc;
	Outlet* outlet = nullptr;
	std::uint32_t destination_qpn = 0;
	std::atomic<QpState> state{QpState::reset};  // posters read it without the engine's lock
	std::uint8_t blocked = 0;
	bool signal_all = false;
	std::uint8_t mtu_code = 3;
	Psn next_psn = 0;  // the next packet's

	Psn una = 0;  // the oldest PSN not acknowledged
	queues::CompletionQueue* send_cq = nullptr;
	std::uint32_t message_offset = 0;  // bytes of WQE sq_next already sent
	std::uint8_t reads_in_flight = 0;
	std::uint8_t reads_max = 1;
	// If not success, WQE sq_next fails with this status once all WQEs before it have completed.
	queues::Status pending_error = queues::Status::success;
	std::atomic<bool> doorbell{false};
	QueuePair* next_waiting = nullptr;  // the outlet's waiting list
	memory::RegionCache send_cache;

	// Responder
	alignas(64) Psn expected_psn = 0;
	queues::ReceiveWqe* receive = nullptr;  // the message in progress uses it; null: none taken yet
	queues::ReceiveQueue* receive_queue = nullptr;
	queues::CompletionQueue* recv_cq = nullptr;
	QueuePair* next_responding = nullptr;  // the context's list of QPs with responses to send
	std::uint32_t receive_offset = 0;  // bytes of the message in progress already received
	std::uint32_t msn = 0;
	std::uint8_t pending_answer = ack_none;  // a combination of ack_pending and nak_pending
	std::uint8_t nak_syndrome = 0;  // the pending NAK's
	InMessage in_message = InMessage::none;
	bool gap_reported = false;  // a NAK was sent; cleared when the expected PSN arrives
	bool on_responding_list = false;
	// The pending acknowledgement: the number of messages that it ends, up to `several_messages`,
	// and whether it is for WRITEs without immediate alone, which the program sees only in its
	// memory.
	std::uint8_t messages_to_acknowledge = 0;
	bool only_silent = false;
	// Set by the first READ or atomic: from then on ACKs travel in slots too, so that none
	// overtakes a response.
	bool responses_in_slots = false;
	std::uint32_t qpn = 0;
	std::uint32_t write_rkey = 0;
	std::uint32_t q_key = 0;
	std::uint8_t remote_access = 0;  // remote_write | remote_read | remote_atomic

	memory::RegionCache receive_cache;
	std::uint64_t write_address = 0;  // start of the WRITE in progress
	std::unique_ptr<ColdQueuePair> cold;

	// The WQE with this index; indices wrap at 2^32.
	queues::SendWqe& wqe(std::uint32_t index) {
		return *reinterpret_cast<queues::SendWqe*>(sq + std::size_t{index & sq_mask} * sq_stride);
	}
	std::uint32_t path_mtu() const { return 1u << mtu_shift; }
	// PSNs that a payload of this length takes: at least one.
	std::uint32_t packets_for(std::uint32_t length) const {
		return length <= path_mtu() ? 1 : ((length - 1) >> mtu_shift) + 1;
	}
	memory::Accessor accessor() const { return {cold->protection_domain, qpn}; }
	bool sq_empty() const { return sq_tail.load(std::memory_order_relaxed) == sq_head.load(std::memory_order_acquire); }
};
static_assert(sizeof(QueuePair) == 256);

}  // namespace verbena::transport
