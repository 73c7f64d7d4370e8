// SPDX-License-Identifier: Apache-2.0
// The Debian packages of programs that people run on an RDMA device. A small table, because a bare
// Debian has no index of the programs that it could install.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace verbena::tools {

// The Debian package that has the program; empty if this table does not know it.
constexpr std::string_view debian_package_of(std::string_view program) {
	using Row = std::pair<std::string_view, std::string_view>;
	constexpr auto table = std::to_array<Row>({
		{"ibv_asyncwatch", "ibverbs-utils"},
		{"ibv_devices", "ibverbs-utils"},
		{"ibv_devinfo", "ibverbs-utils"},
		{"ibv_rc_pingpong", "ibverbs-utils"},
		{"ibv_srq_pingpong", "ibverbs-utils"},
		{"ibv_uc_pingpong", "ibverbs-utils"},
		{"ibv_ud_pingpong", "ibverbs-utils"},
		{"ibv_xsrq_pingpong", "ibverbs-utils"},
		{"cmtime", "rdmacm-utils"},
		{"mckey", "rdmacm-utils"},
		{"rcopy", "rdmacm-utils"},
		{"rdma_client", "rdmacm-utils"},
		{"rdma_server", "rdmacm-utils"},
		{"rdma_xclient", "rdmacm-utils"},
		{"rdma_xserver", "rdmacm-utils"},
		{"riostream", "rdmacm-utils"},
		{"rping", "rdmacm-utils"},
		{"rstream", "rdmacm-utils"},
		{"ucmatose", "rdmacm-utils"},
		{"udaddy", "rdmacm-utils"},
		{"udpong", "rdmacm-utils"},
		{"ib_atomic_bw", "perftest"},
		{"ib_atomic_lat", "perftest"},
		{"ib_read_bw", "perftest"},
		{"ib_read_lat", "perftest"},
		{"ib_send_bw", "perftest"},
		{"ib_send_lat", "perftest"},
		{"ib_write_bw", "perftest"},
		{"ib_write_lat", "perftest"},
		{"raw_ethernet_bw", "perftest"},
		{"raw_ethernet_lat", "perftest"},
		{"ucx_info", "ucx-utils"},
		{"ucx_perftest", "ucx-utils"},
		{"ucx_read_profile", "ucx-utils"},
		{"fi_info", "libfabric-bin"},
		{"fi_pingpong", "libfabric-bin"},
		{"fi_strerror", "libfabric-bin"},
		{"mpirun", "openmpi-bin"},
		{"mpiexec", "openmpi-bin"},
		{"ompi_info", "openmpi-bin"},
		{"orterun", "openmpi-bin"},
		{"oshrun", "openmpi-bin"},
		{"qperf", "qperf"},
		{"fio", "fio"},
		{"rdma", "iproute2"},
		{"ibstat", "infiniband-diags"},
		{"ibstatus", "infiniband-diags"},
		{"perfquery", "infiniband-diags"},
		{"valgrind", "valgrind"},
	});
	const auto* const found = std::ranges::find(table, program, &Row::first);
	return found == table.end() ? std::string_view() : found->second;
}

}  // namespace verbena::tools
