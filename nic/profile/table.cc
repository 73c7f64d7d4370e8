// SPDX-License-Identifier: Apache-2.0
// The table of profiles. Facts come from the files and issues that `sources` names; the names of
// GitHub issues are those of their repositories.
#include <algorithm>
#include <array>

#include "nic/profile/profile.h"

namespace verbena::profile {
namespace {

constexpr Profile software{
	.name = "verbena",
	.device = "the software NIC",
	.sources = "docs/verbs-support.md",
	.vendor_id = 0x766273,  // "vbs"; not an assigned OUI, but pyverbs refuses 0
	.vendor_part_id = 1,
	.max_inline_data = 512,
	.max_send_sge = 16,
	.max_recv_sge = 16,
	.max_sge_rd = 16,
	.max_qp_wr = 1 << 15,
	.max_cqe = 1 << 22,
	.max_qp_rd_atom = 16,
	.max_qp_init_rd_atom = 16,
	.max_srq_wr = 1 << 20,
	.max_srq_sge = 16,
	.max_msg_sz = 1u << 31,
	.types = rc | uc | ud,
	.srq = Answer::yes,
	.windows = Answer::yes,
	.paging = Answer::yes,
	.atomics = Atomics::global,
	.immediate = Answer::yes,
	.resize_cq = Answer::yes,
	.create_qp_ex = Answer::yes,
	.create_cq_ex = Answer::yes,
};

// The provider mlx5 has no constant for inline data: the bytes that are free in a WQE depend on the
// queue pair, and programs find them by trying.
constexpr Profile connectx6{
	.name = "cx6",
	.device = "NVIDIA ConnectX-6 (mlx5)",
	.sources = "ibv_devinfo -v in openucx/ucx#8229, #10317 and #10430; rdma-core providers/mlx5",
	.vendor_id = 0x02c9,
	.vendor_part_id = 4123,
	.max_send_sge = 30,
	.max_recv_sge = 30,
	.max_sge_rd = 30,
	.max_qp_wr = 32768,
	.max_cqe = 4194303,
	.max_qp_rd_atom = 16,
	.max_qp_init_rd_atom = 16,
	.max_srq_wr = 32767,
	.max_srq_sge = 31,
	.max_msg_sz = 0x4000'0000,
	.types = rc | uc | ud,
	.srq = Answer::yes,
	.windows = Answer::yes,
	.paging = Answer::yes,
	.atomics = Atomics::device,
	.immediate = Answer::yes,
	.resize_cq = Answer::yes,
	.create_qp_ex = Answer::yes,
	.create_cq_ex = Answer::yes,
};

constexpr Profile connectx7 = [] {
	Profile same = connectx6;
	same.name = "cx7";
	same.device = "NVIDIA ConnectX-7 (mlx5)";
	same.vendor_part_id = 4129;
	same.sources = "those of cx6: no output of this device was found, so it is taken to be equal";
	return same;
}();

constexpr Profile e810{
	.name = "e810",
	.device = "Intel E810 (irdma)",
	.sources =
		"rdma-core providers/irdma; Linux drivers/infiniband/hw/irdma; linux-rdma/perftest#139; "
		"deepseek-ai/3FS#192",
	.vendor_id = 0x8086,
	.vendor_part_id = 5522,
	.max_inline_data = 101,
	.grants = Inline::as_asked,
	.max_send_sge = 13,
	.max_recv_sge = 13,
	.max_sge_rd = 13,
	.max_qp_wr = 4063,  // requests of the greatest width
	.depths = Depths::irdma_units,
	.max_cqe = 1048574,
	.max_qp_rd_atom = 127,
	.max_qp_init_rd_atom = 255,
	.max_srq_wr = 0,
	.max_srq_sge = 0,
	.max_msg_sz = 0x7fff'ffff,
	.types = rc | ud,
	.srq = Answer::no,
	.windows = Answer::yes,
	.paging = Answer::no,
	.atomics = Atomics::none,
	.immediate = Answer::yes,
	.resize_cq = Answer::yes,
	.create_qp_ex = Answer::no,
	.create_cq_ex = Answer::yes,
};

constexpr Profile bnxt{
	.name = "bnxt",
	.device = "Broadcom NetXtreme-E (bnxt_re)",
	.sources = "rdma-core providers/bnxt_re; Linux drivers/infiniband/hw/bnxt_re; uccl-project/uccl#250",
	.vendor_id = 0x14e4,
	.vendor_part_id = 0x1750,  // BCM57508
	.max_inline_data = 96,
	.max_send_sge = 6,
	.max_recv_sge = 6,
	.max_sge_rd = 6,
	.max_qp_wr = 4351,
	.max_cqe = 8388607,
	.max_qp_rd_atom = 126,
	.max_qp_init_rd_atom = 126,
	.types = rc | ud,
	.srq = Answer::yes,
	.windows = Answer::no,  // the kernel's driver has them, the provider does not
	.paging = Answer::no,
	.atomics = Atomics::none,  // global, if the PCIe bus carries atomics
	.immediate = Answer::yes,
	.resize_cq = Answer::yes,
	.create_qp_ex = Answer::yes,
	.create_cq_ex = Answer::no,
};

constexpr Profile efa{
	.name = "efa",
	.device = "AWS Elastic Fabric Adapter (efa)",
	.sources = "rdma-core providers/efa; Linux drivers/infiniband/hw/efa/efa_verbs.c",
	.vendor_id = 0x1d0f,
	.vendor_part_id = 0xefa0,
	.max_inline_data = 32,  // 80 on devices with wide descriptors
	.grants = Inline::as_asked,
	.max_send_sge = 2,
	.max_sge_rd = 1,
	.max_srq_wr = 0,
	.max_srq_sge = 0,
	.message_is_mtu = Answer::yes,
	.types = ud,
	.srq = Answer::no,
	.windows = Answer::no,
	.paging = Answer::no,
	.atomics = Atomics::none,
	.immediate = Answer::yes,
	.resize_cq = Answer::no,
	.create_qp_ex = Answer::yes,
	.create_cq_ex = Answer::yes,
};

// The figures of older kernels, which are the smaller ones. Newer kernels have memory windows, and
// their limits of queues are 2^20.
constexpr Profile rxe{
	.name = "rxe",
	.device = "the kernel's Soft-RoCE (rdma_rxe)",
	.sources =
		"Linux drivers/infiniband/sw/rxe/rxe_param.h; rdma-core providers/rxe; openucx/ucx#5045; "
		"ofiwg/libfabric#4719",
	.vendor_id = 0,
	.vendor_part_id = 0,
	.max_inline_data = 400,
	.grants = Inline::as_asked,
	.max_send_sge = 32,
	.max_recv_sge = 32,
	.max_sge_rd = 32,
	.max_qp_wr = 16384,
	.max_cqe = 32767,
	.max_qp_rd_atom = 128,
	.max_qp_init_rd_atom = 128,
	.max_srq_wr = 16384,
	.max_srq_sge = 27,
	.max_msg_sz = 0x80'0000,
	.types = rc | uc | ud,
	.srq = Answer::yes,
	.windows = Answer::no,
	.paging = Answer::no,
	.atomics = Atomics::device,
	.immediate = Answer::yes,
	.resize_cq = Answer::yes,
	.create_qp_ex = Answer::yes,
	.create_cq_ex = Answer::yes,
};

constexpr Profile siw{
	.name = "siw",
	.device = "the kernel's Soft-iWARP (siw)",
	.sources =
		"Linux include/uapi/rdma/siw-abi.h, drivers/infiniband/sw/siw; rdma-core providers/siw; "
		"ofiwg/libfabric#1707",
	.vendor_id = 0x626d74,
	.vendor_part_id = 0,
	.max_inline_data = 80,
	.grants = Inline::as_asked,
	.max_send_sge = 6,
	.max_recv_sge = 6,
	.max_sge_rd = 1,
	.max_qp_wr = 32768,
	.max_cqe = 3276800,
	.max_qp_rd_atom = 128,
	.max_qp_init_rd_atom = 128,
	.max_srq_wr = 327680,
	.max_srq_sge = 6,
	.max_msg_sz = 0xffff'ffff,
	.types = rc,
	.srq = Answer::yes,
	.windows = Answer::no,
	.paging = Answer::no,
	.atomics = Atomics::none,
	.immediate = Answer::no,
	.resize_cq = Answer::no,
	.create_qp_ex = Answer::no,
	.create_cq_ex = Answer::no,
	.read_sink_needs_remote_write = Answer::yes,
};

constexpr Profile qedr{
	.name = "qedr",
	.device = "Marvell FastLinQ (qedr)",
	.sources = "ibv_devinfo -v in openucx/ucx#5148; linux-rdma/perftest#110; rdma-core providers/qedr",
	.vendor_id = 0x1077,
	.vendor_part_id = 32880,
	.max_inline_data = 128,
	.max_send_sge = 4,
	.max_recv_sge = 4,
	.max_sge_rd = 4,
	.max_qp_wr = 32767,
	.max_cqe = 8388480,
	.max_qp_rd_atom = 32,
	.max_qp_init_rd_atom = 32,
	.types = rc,
	.types_unknown = uc | ud,
	.srq = Answer::yes,
	.windows = Answer::no,
	.paging = Answer::no,
	.atomics = Atomics::global,
	.immediate = Answer::yes,
	.resize_cq = Answer::no,
	.create_qp_ex = Answer::yes,
	.create_cq_ex = Answer::no,
};

constexpr Answer least(Answer a, Answer b) {
	if (a == Answer::no || b == Answer::no) return Answer::no;
	return a == Answer::unknown ? b : a;
}

// Lowers `floor` to what `device` has too. An unknown figure is the greatest number, so it lowers
// nothing.
constexpr void lower(Profile& floor, const Profile& device) {
	for (const auto figure : {&Profile::max_inline_data, &Profile::max_send_sge, &Profile::max_recv_sge,
			 &Profile::max_sge_rd, &Profile::max_qp_wr, &Profile::max_cqe, &Profile::max_qp_rd_atom,
			 &Profile::max_qp_init_rd_atom, &Profile::max_srq_wr, &Profile::max_srq_sge, &Profile::max_msg_sz})
		floor.*figure = std::min(floor.*figure, device.*figure);
	for (const auto answer : {&Profile::srq, &Profile::windows, &Profile::paging, &Profile::immediate,
			 &Profile::resize_cq, &Profile::create_qp_ex, &Profile::create_cq_ex})
		floor.*answer = least(floor.*answer, device.*answer);
	floor.types &= device.types | device.types_unknown;
	floor.atomics = std::min(floor.atomics, device.atomics);
}

// The smallest limits of the RoCE devices above. Without efa and siw, which have no type of queue
// pair in common.
constexpr Profile lowest = [] {
	Profile floor = software;
	floor.name = "floor";
	floor.device = "the smallest of cx6, cx7, e810, bnxt, rxe, qedr and the software NIC";
	floor.sources = "those of these profiles";
	floor.grants = Inline::as_asked;
	for (const Profile& each : {connectx6, connectx7, e810, bnxt, rxe, qedr}) lower(floor, each);
	return floor;
}();

constexpr std::array profiles{connectx6, connectx7, e810, bnxt, efa, rxe, siw, qedr, lowest, software};

}  // namespace

const Profile& own() { return profiles.back(); }

std::span<const Profile> all() { return profiles; }

const Profile* find(std::string_view name) {
	const auto found = std::ranges::find(profiles, name, &Profile::name);
	return found == profiles.end() ? nullptr : &*found;
}

}  // namespace verbena::profile
