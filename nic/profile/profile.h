// SPDX-License-Identifier: Apache-2.0
// Device profiles: the limits of real RDMA devices, which `verbena run --profile NAME` makes the
// software devices report and enforce (docs/profiles.md).
//
// A figure or a feature for which no source was found is unknown. The NIC then behaves as without a
// profile.
//
// Threads: constants and pure functions.
// Errors: none; an unknown name has no profile.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace verbena::profile {

// No device has this figure. It is greater than all but that of siw's max_msg_sz.
inline constexpr std::uint32_t unknown = 0xffff'fffe;

enum class Answer : std::uint8_t { no, yes, unknown };

// The values of `enum ibv_atomic_cap`, and unknown.
enum class Atomics : std::uint8_t { none, device, global, unknown };

// The bit of a queue pair type in a set of types.
enum Type : std::uint8_t { rc = 1, uc = 2, ud = 4 };

// The `max_inline_data` that a device grants when a queue pair is created.
enum class Inline : std::uint8_t {
	rounded_up,  // at least the bytes that were asked for, up to the limit
	as_asked,
};

// The way in which a device counts the entries of a queue (depth.h).
enum class Depths : std::uint8_t {
	entries,  // up to max_qp_wr, rounded up to a power of two
	irdma_units,  // narrow entries may be more than max_qp_wr
};

// The figures have the names of ibv_device_attr and ibv_qp_cap (ibv_query_device(3),
// ibv_create_qp(3)), where these structs have them.
struct Profile {
	std::string_view name;  // as in `--profile e810`
	std::string_view device;
	std::string_view sources;  // the files and issues that the figures are from

	std::uint32_t vendor_id = unknown, vendor_part_id = unknown;  // some programs choose by them
	std::uint32_t max_inline_data = unknown;  // bytes
	Inline grants = Inline::rounded_up;
	std::uint32_t max_send_sge = unknown, max_recv_sge = unknown;
	std::uint32_t max_sge_rd = unknown;  // the segments of a READ
	std::uint32_t max_qp_wr = unknown;
	Depths depths = Depths::entries;
	std::uint32_t max_cqe = unknown;
	std::uint32_t max_qp_rd_atom = unknown;  // READs and atomics that a queue pair serves at once
	std::uint32_t max_qp_init_rd_atom = unknown;  // those that it sends at once
	std::uint32_t max_srq_wr = unknown, max_srq_sge = unknown;
	std::uint32_t max_msg_sz = unknown;  // bytes; reported only
	Answer message_is_mtu = Answer::no;  // max_msg_sz is the active MTU of the port

	std::uint8_t types = 0;  // a set of Type: those that the device is known to have
	std::uint8_t types_unknown = 0;
	Answer srq = Answer::unknown;
	Answer windows = Answer::unknown;  // memory windows
	Answer paging = Answer::unknown;  // on-demand paging
	Atomics atomics = Atomics::unknown;
	Answer immediate = Answer::unknown;  // SEND and WRITE with immediate data
	Answer resize_cq = Answer::unknown;
	Answer create_qp_ex = Answer::unknown;  // with more than IBV_QP_INIT_ATTR_PD
	Answer create_cq_ex = Answer::unknown;
	// A READ stores only into memory that is registered with IBV_ACCESS_REMOTE_WRITE (iWARP).
	Answer read_sink_needs_remote_write = Answer::no;
};

// The software NIC itself: the profile of a program that has asked for none.
const Profile& own();

// The profiles that can be asked for, in the order of the list that people see.
std::span<const Profile> all();

// Null: there is no profile of this name.
const Profile* find(std::string_view name);

}  // namespace verbena::profile
