// SPDX-License-Identifier: Apache-2.0
// Conversion between cm's structs and the kernel's ABI (uABI): connection parameters, events, and
// the attributes with which librdmacm modifies a queue pair. Pure functions.
#pragma once

#include <rdma/rdma_user_cm.h>

#include "nic/ucma/id.h"

namespace verbena::ucma {

// The kernel's RDMA_UDP_QKEY: the Q_Key of datagram ids that set no other.
inline constexpr std::uint32_t default_q_key = 0x0123'4567;

cm::Half half_of(const rdma_ucm_conn_param&, std::uint32_t starting_psn);

// The event that reports a message. Each end sees the other's READ limits swapped: the peer's
// initiator depth is this end's responder resources, and the reverse.
rdma_ucm_event_resp event_of(const cm::Message&);

// The READs and atomics in flight that our devices support; a peer may offer more.
struct ReadLimits {
	std::uint8_t served = 16, sent = 16;
};

// Fills the attributes for ibv_modify_qp(3) to `state`. `connection` is null before there is one.
// False if the connection does not have the attributes that the state requires yet.
bool fill_qp_attributes(ib_uverbs_qp_attr&, const Id&, const cm::Connection*, const ReadLimits&, std::uint32_t state);

// The address vector from the id's own address to `destination`.
ib_uverbs_ah_attr path_to(const Id&, const wire::Gid& destination);

}  // namespace verbena::ucma
