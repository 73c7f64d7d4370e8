// SPDX-License-Identifier: Apache-2.0
// The limits of the software devices under a profile: its figures, and where it has none, or the
// NIC could not keep them, those of the NIC.
//
// Threads: pure functions and values.
#pragma once

#include <cstdint>
#include <string_view>

#include "nic/profile/profile.h"

namespace verbena::profile {

// The most that the NIC can do, whatever a profile says.
inline constexpr std::uint32_t segments_most = 32, inline_bytes_most = 512, work_requests_most = 1 << 15;
inline constexpr std::uint32_t completions_most = 1 << 22, shared_receives_most = 1 << 20, message_most = 1u << 31;

// As in Profile, without what is unknown.
struct Limits {
	std::string_view profile;  // its name; empty: the program has asked for none
	std::uint32_t vendor_id, vendor_part_id;
	std::uint32_t max_inline_data;
	Inline grants;
	std::uint32_t max_send_sge, max_recv_sge, max_sge_rd;
	std::uint32_t max_qp_wr, max_cqe;
	Depths depths;
	std::uint32_t max_qp_rd_atom, max_qp_init_rd_atom;
	std::uint32_t max_srq_wr, max_srq_sge;
	std::uint32_t max_msg_sz;
	bool message_is_mtu;
	std::uint8_t types;
	bool srq, windows, paging, immediate, resize_cq, create_qp_ex, create_cq_ex;
	Atomics atomics;
	bool read_sink_needs_remote_write;
};

Limits limits_of(const Profile&);

}  // namespace verbena::profile
