// A queue pair: a requester and a responder, 256 bytes that the hot paths touch (two cache lines each) and a cold part.
//
// This is the state alone; requester.cc, completer.cc, responder.cc and datagram.cc act on it. `una`, `next_psn` and
// the WQEs between `sq_tail` and `sq_next` are what the requester and the completer share: the requests in flight. PSNs
// are absolute 64-bit numbers; `una` is the oldest that is not acknowledged, `next_psn` the next to be sent.
//
// Owned by one adapter and used under the engine's lock, except that posters write the WQEs from `sq_head` on, under
// `sq_lock`.
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
#include "nic/wire/numbers.h"

namespace verbena::transport {

using Psn = std::uint64_t;

// Why a requester does not send although it has WQEs.
enum Blocked : std::uint8_t {
	blocked_ring = 1,  // waits for room on its outlet
	blocked_rnr = 2,  // the receiver asked for a pause
	blocked_window = 4,  // too much in flight; acknowledgements go on
};

// What a responder owes its peer besides READ and atomic responses.
enum Owed : std::uint8_t { owed_nothing = 0, owed_ack = 1, owed_nak = 2 };

// The message that a responder is in the middle of.
enum class InMessage : std::uint8_t { none, send, write, discard };

// A READ or atomic that was accepted and whose response has not left entirely.
struct PendingResponse {
	Psn psn;  // of the next response packet
	std::uint32_t rkey;
	std::uint64_t address;
	std::uint32_t remaining;  // READ: bytes still to send
	std::uint32_t msn;
	std::uint64_t result;  // atomic: the original value
	bool atomic;
	bool begun;
	bool duplicate;  // answered once more; does not count against max_dest_rd_atomic
};

// The result of an executed atomic, kept for its duplicates (9.4.5).
struct AtomicResult {
	Psn psn = ~Psn{0};
	std::uint64_t original = 0;
};

struct QueuePairAttributes {
	std::uint8_t access = 0;  // remote_write | remote_read | remote_atomic
	std::uint8_t path_mtu = 5;  // enum ibv_mtu
	std::uint8_t timeout = 0;  // 4.096 us * 2^timeout; 0 waits for ever
	std::uint8_t retry_count = 7;
	std::uint8_t rnr_retry = 7;  // 7 retries for ever
	std::uint8_t min_rnr_timer = 0;
	std::uint8_t max_rd_atomic = 1;
	std::uint8_t max_dest_rd_atomic = 1;
	std::uint32_t q_key = 0;
	std::uint16_t pkey_index = 0;
	std::uint8_t source_gid[16] = {};
	std::uint8_t destination_gid[16] = {};
};

// See recovery.h. PSN 0 never occurs inside, and means none.
struct Recovery {
	// Requester
	Psn sent_end = 0;  // beyond all that was ever sent
	Psn timed_psn = 0;  // when this is acknowledged, the round trip from `timed_at` is known
	Psn probe_end = 0;  // a probe may go, whatever the window
	Psn resent_psn = 0;  // where it last went back to, and when
	Nanoseconds timed_at = 0, resent_at = 0;
	Nanoseconds waiting_since = 0;  // nothing was acknowledged
	std::uint8_t probes = 0;  // since then
	bool sending = false;  // is one of the outlet's senders
	bool read_continues = false;  // the READ at sq_next has been asked for up to message_offset, and is counted
	// Responder
	bool nak_repeated = false;
	Nanoseconds nak_at = 0;  // of the last NAK for the present gap
};

struct ColdQueuePair : TimerEntry {
	struct QueuePair* qp = nullptr;
	void* user = nullptr;  // the ABI object
	std::uint32_t protection_domain = 0;
	QueuePairAttributes attributes;
	std::uint16_t send_segments_max = 1;
	std::uint16_t inline_max = 0;

	Recovery recovery;  // links that can lose packets

	// Requester
	std::uint8_t retries_left = 7, rnr_retries_left = 7;
	bool timer_armed = false;
	bool rewound_for_gap = false;  // an implied NAK is acted on once until there is progress
	bool draining = false;  // SQD: the event is owed
	std::uint32_t sq_begun = 0;  // SQD: WQEs up to here had been begun (note_begun)
	Psn una_at_timer = ~Psn{0}, una_at_rnr = ~Psn{0};  // retries count anew after progress
	QueuePair* next_doorbell = nullptr;
	Outlet* waiting_on = nullptr;  // whose list this QP is on while it is blocked_ring

	// Responder
	std::vector<PendingResponse> pending;  // ring of power-of-two size
	std::uint32_t pending_first = 0, pending_count = 0;
	std::vector<AtomicResult> atomic_results;
	std::uint32_t atomic_next = 0;
	std::unique_ptr<std::byte[]> receive_copy;  // the WQE of a message that spans slots
	std::uint32_t write_length = 0;
	bool communication_established = false;
	bool last_wqe_reached = false;

	std::unique_ptr<std::byte[]> send_ring;
	std::unique_ptr<queues::ReceiveQueue> own_receive_queue;
};

struct alignas(64) QueuePair {
	// Requester
	SpinLock sq_lock;
	std::atomic<std::uint32_t> sq_head{0};  // posted up to here
	std::uint32_t sq_next = 0;  // sent up to here
	std::atomic<std::uint32_t> sq_tail{0};  // completed up to here
	std::byte* sq = nullptr;
	std::uint32_t sq_mask = 0;
	std::uint16_t sq_stride = 0;
	std::uint8_t mtu_shift = 10;
	QpType type = QpType::rc;
	Outlet* outlet = nullptr;
	std::uint32_t destination_qpn = 0;
	QpState state = QpState::reset;
	std::uint8_t blocked = 0;
	bool signal_all = false;
	std::uint8_t mtu_code = 3;
	Psn next_psn = 0;

	Psn una = 0;
	queues::CompletionQueue* send_cq = nullptr;
	std::uint32_t message_offset = 0;  // bytes of WQE sq_next already sent
	std::uint8_t reads_in_flight = 0;
	std::uint8_t reads_max = 1;
	queues::Status pending_error =
		queues::Status::success;  // of WQE sq_next, due when everything before it has completed
	std::atomic<bool> doorbell{false};
	QueuePair* next_waiting = nullptr;
	memory::RegionCache send_cache;

	// Responder
	alignas(64) Psn expected_psn = 0;
	queues::ReceiveWqe* receive = nullptr;  // of the message under way
	queues::ReceiveQueue* receive_queue = nullptr;
	queues::CompletionQueue* recv_cq = nullptr;
	QueuePair* next_owing = nullptr;
	std::uint32_t receive_offset = 0;
	std::uint32_t msn = 0;
	std::uint8_t owed = owed_nothing;
	std::uint8_t nak_syndrome = 0;
	InMessage in_message = InMessage::none;
	bool gap_reported = false;  // one NAK until the expected PSN arrives
	bool on_owing_list = false;
	bool responses_in_slots = false;  // a READ or atomic was served: acknowledgements must stay behind its response
	std::uint32_t qpn = 0;
	std::uint32_t write_rkey = 0;
	std::uint32_t q_key = 0;
	std::uint8_t remote_access = 0;  // remote_write | remote_read | remote_atomic

	memory::RegionCache receive_cache;
	std::uint64_t write_address = 0;
	std::unique_ptr<ColdQueuePair> cold;

	queues::SendWqe& wqe(std::uint32_t index) {
		return *reinterpret_cast<queues::SendWqe*>(sq + std::size_t{index & sq_mask} * sq_stride);
	}
	std::uint32_t path_mtu() const { return 1u << mtu_shift; }
	std::uint32_t packets_for(std::uint32_t length) const {
		return length <= path_mtu() ? 1 : ((length - 1) >> mtu_shift) + 1;
	}
	memory::Accessor accessor() const { return {cold->protection_domain, qpn}; }
	bool sq_empty() const { return sq_tail.load(std::memory_order_relaxed) == sq_head.load(std::memory_order_acquire); }
};
static_assert(sizeof(QueuePair) == 256);

}  // namespace verbena::transport
