// Creating queue pairs, and connecting them when the two ends exchange their parameters themselves (for rdma_cm see
// connection_manager.h).
//
// Free functions over ibv_qp, in the order of use: make_queue_pair, to_init, post receives, then connect (RC) or start
// (UD). Each gives nothing or one sentence that says which step failed.
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
	std::uint32_t inline_wanted = 0;  // falls back to 0 where the device refuses; see `inline_max`
	bool signal_all = false;
	ibv_srq* shared_receives = nullptr;  // its receives come from there; `receive_depth` is not used then
	rdma_cm_id* connection =
		nullptr;  // make it on this rdma_cm connection, whose device it must be; it is in INIT then
};

struct MadeQueuePair {
	QueuePair qp;
	std::uint32_t inline_max = 0;  // what the device gives
};

// Where the other end is. `psn` is the first packet sequence number that it sends.
struct RemoteEnd {
	std::uint32_t qpn = 0;
	std::uint32_t psn = 0;
	std::uint16_t lid = 0;
	ibv_gid gid{};
};

struct RcPath {
	std::uint32_t mtu_bytes = 1024;     // the smaller of both ends
	std::uint32_t local_psn = 0;        // 24 bits, random
	std::uint8_t reads_as_target = 1;   // READs and atomics in flight from the peer
	std::uint8_t reads_as_requester = 1;
};

// How long a sender waits after it found no receive: 1 is 0.01 ms, so that a receiver that is late by a little costs
// little.
inline constexpr std::uint8_t rnr_timer = 1;

using Done = std::expected<void, std::string>;

std::expected<MadeQueuePair, std::string> make_queue_pair(
	const OpenDevice& device, ibv_cq* cq, const QueuePairOptions& options);

Done rc_to_init(ibv_qp* qp, const OpenDevice& device, int remote_access);
Done rc_connect(ibv_qp* qp, const OpenDevice& device, const RemoteEnd& remote, const RcPath& path);

// It sends and receives nothing any more; what was posted to it completes with an error.
void to_error(ibv_qp* qp);

// INIT, RTR and RTS; receives may be posted before or after.
Done ud_start(ibv_qp* qp, const OpenDevice& device, std::uint32_t qkey, std::uint32_t local_psn);

ibv_ah_attr address_of(const OpenDevice& device, const RemoteEnd& remote);

// All 24 bits, from the kernel's generator; there is no other source to fall back to.
std::uint32_t random_psn();

// 4096 -> IBV_MTU_4096; the largest MTU that does not exceed `bytes`.
ibv_mtu mtu_enum(std::uint32_t bytes);

}  // namespace verbena::lib
