// What the two structs of a connection become in the kernel's ABI: the parameters of an event, and the attributes of a
// queue pair.
#pragma once

#include <rdma/rdma_user_cm.h>

#include "nic/ucma/id.h"

namespace verbena::ucma {

// The kernel's RDMA_UDP_QKEY: what datagram ids use unless they say otherwise.
inline constexpr std::uint32_t default_q_key = 0x0123'4567;

cm::Half half_of(const rdma_ucm_conn_param&, std::uint32_t starting_psn);

// The event of a message of the connection manager. The requester's resources are the responder's depth, and the
// reverse.
rdma_ucm_event_resp event_of(const cm::Message&);

// For ibv_modify_qp to `state`. `connection`: null before there is one. False: the connection does not know what the
// state needs.
bool fill_qp_attributes(ib_uverbs_qp_attr&, const Id&, const cm::Connection*, std::uint32_t state);

ib_uverbs_ah_attr path_to(const Id&, const wire::Gid& destination);

}  // namespace verbena::ucma
