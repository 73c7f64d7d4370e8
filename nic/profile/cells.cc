// SPDX-License-Identifier: Apache-2.0
#include "nic/profile/cells.h"

#include <cstdio>
#include <utility>

namespace verbena::profile {
namespace {

std::string text(std::uint32_t figure) { return figure == unknown ? "?" : std::to_string(figure); }

std::string text(Answer answer) { return answer == Answer::unknown ? "?" : answer == Answer::yes ? "yes" : "no"; }

std::string text(Atomics atomics) {
	constexpr const char* names[] = {"none", "HCA", "global", "?"};
	return names[static_cast<std::size_t>(atomics)];
}

std::string hex(std::uint32_t number) {
	if (number == unknown) return "?";
	char text[16];
	return {text, static_cast<std::size_t>(std::snprintf(text, sizeof text, "0x%x", number))};
}

template <auto member> std::string of(const Profile& profile) { return text(profile.*member); }

std::string types_of(const Profile& profile) {
	std::string types;
	for (const auto& [bit, name] : {std::pair{rc, "RC"}, std::pair{uc, "UC"}, std::pair{ud, "UD"}}) {
		const bool open = profile.types_unknown & bit;
		if (open || profile.types & bit) types += (types.empty() ? "" : " ") + std::string(name) + (open ? "?" : "");
	}
	return types;
}

std::string message_of(const Profile& profile) {
	return profile.message_is_mtu == Answer::yes ? "MTU" : text(profile.max_msg_sz);
}

}  // namespace

const std::vector<Row>& rows() {
	static const std::vector<Row> table{
		{"vendor_id", [](const Profile& profile) { return hex(profile.vendor_id); }},
		{"vendor_part_id", of<&Profile::vendor_part_id>},
		{"types of queue pairs", types_of},
		{"max_inline_data", of<&Profile::max_inline_data>},
		{"max_send_sge", of<&Profile::max_send_sge>},
		{"max_recv_sge", of<&Profile::max_recv_sge>},
		{"max_sge_rd", of<&Profile::max_sge_rd>},
		{"max_qp_wr", of<&Profile::max_qp_wr>},
		{"max_cqe", of<&Profile::max_cqe>},
		{"max_qp_rd_atom", of<&Profile::max_qp_rd_atom>},
		{"max_qp_init_rd_atom", of<&Profile::max_qp_init_rd_atom>},
		{"max_msg_sz", message_of},
		{"atomics", of<&Profile::atomics>},
		{"immediate data", of<&Profile::immediate>},
		{"shared receive queues", of<&Profile::srq>},
		{"max_srq_wr", of<&Profile::max_srq_wr>},
		{"max_srq_sge", of<&Profile::max_srq_sge>},
		{"memory windows", of<&Profile::windows>},
		{"on-demand paging", of<&Profile::paging>},
		{"ibv_resize_cq", of<&Profile::resize_cq>},
		{"ibv_create_qp_ex", of<&Profile::create_qp_ex>},
		{"ibv_create_cq_ex", of<&Profile::create_cq_ex>},
		{"a READ needs REMOTE_WRITE", of<&Profile::read_sink_needs_remote_write>},
	};
	return table;
}

}  // namespace verbena::profile
