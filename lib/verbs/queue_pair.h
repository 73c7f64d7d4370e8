// SPDX-License-Identifier: Apache-2.0
// Creates queue pairs, and connects them when the two ends exchange their parameters themselves.
// For rdma_cm see connection_manager.h.
//
// Call in this order: make_queue_pair; rc_to_init; post receives; rc_connect. For UD:
// make_queue_pair; ud_start. IBA 10.3.1 has the states, ibv_modify_qp(3) the attributes.
//
// Threads: thread-safe, as the verbs are; the steps of one queue pair are called in order.
// Lifetime: the device and the completion queue outlive the queue pair.
// Errors: one sentence that names the call that failed.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "lib/verbs/device.h"

namespace verbena::lib {

struct QueuePairOptions {
	ibv_qp_type type = IBV_QPT_RC;
	std::uint32_t send_depth = 64;
	std::uint32_t receive_depth = 64;
	std::uint32_t send_sge_max = 1;
	std::uint32_t inline_wanted = 0;  // falls back to 0 if the device refuses; see inline_max
	bool signal_all = false;
	// Takes its receives from this queue; receive_depth is not used then.
	ibv_srq* shared_receives = nullptr;
	// Creates the queue pair on this rdma_cm connection, which must be of the same device; the
	// queue pair is then in INIT.
	rdma_cm_id* connection = nullptr;
};

struct MadeQueuePair {
	QueuePair qp;
	std::uint32_t inline_max = 0;  // bytes; what the device granted
};

// The address of the peer's queue pair. `psn` is the first packet sequence number that the peer
// sends.
struct RemoteEnd {
	std::uint32_t qpn = 0;
	std::uint32_t psn = 0;
	std::uint16_t lid = 0;
	ibv_gid gid{};
};

struct RcPath {
	std::uint32_t mtu_bytes = 1024;     // path MTU: the smaller of both ends' MTUs
	std::uint32_t local_psn = 0;        // first PSN that this end sends: 24 random bits
	std::uint8_t reads_as_target = 1;   // READs and atomics in flight from the peer
	// READs and atomics in flight to the peer.
	std::uint8_t reads_as_requester = 1;
};

// The encoded time that a peer waits after an RNR NAK (IBA 9.7.5): 1 is 0.01 ms, so a receive that
// is posted a little late costs little.
inline constexpr std::uint8_t rnr_timer = 1;

using Done = std::expected<void, std::string>;

std::expected<MadeQueuePair, std::string> make_queue_pair(
	const OpenDevice& device, ibv_cq* cq, const QueuePairOptions& options);

// `remote_access`: IBV_ACCESS_REMOTE_* flags that the peer may use.
Done rc_to_init(ibv_qp* qp, const OpenDevice& device, int remote_access);
// From INIT through RTR to RTS.
Done rc_connect(ibv_qp* qp, const OpenDevice& device, const RemoteEnd& remote, const RcPath& path);

// Moves the queue pair to ERR: it sends and receives nothing more, and what was posted to it
// completes with an error.
void to_error(ibv_qp* qp);

// Moves a UD queue pair through INIT and RTR to RTS. Receives may be posted before or after.
Done ud_start(ibv_qp* qp, const OpenDevice& device, std::uint32_t qkey, std::uint32_t local_psn);

// The address vector that leads from this device to the peer.
ibv_ah_attr address_of(const OpenDevice& device, const RemoteEnd& remote);

// 24 random bits from the kernel's generator. There is no fallback: without them the process stops.
std::uint32_t random_psn();

// The largest MTU that does not exceed `bytes`, at least IBV_MTU_256: 4096 gives IBV_MTU_4096.
ibv_mtu mtu_enum(std::uint32_t bytes);

}  // namespace verbena::lib
