// SPDX-License-Identifier: Apache-2.0
// Opening a device, and the queries of its attributes, port and GIDs.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <endian.h>
#include <fcntl.h>
#include <memory>
#include <unistd.h>

#include "base/log.h"
#include "nic/presence/device_descriptor.h"
#include "nic/verbs/adverse_path.h"
#include "nic/verbs/boundary.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/checked_path.h"
#include "nic/verbs/limits.h"
#include "nic/verbs/ordered_path.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/traced_path.h"
#include "nic/verbs/unsupported_ops.h"

namespace verbena::verbs {
namespace {

// From 1: 0 is the number of a descriptor that open(2) returned.
std::uint32_t next_context_number() {
	static std::atomic<std::uint32_t> last{0};
	return last.fetch_add(1, std::memory_order_relaxed) % presence::context_number_max + 1;
}

void fill_operations(SoftContext& context) {
	fill_unsupported(&context.verbs);
	verbs_context& v = context.verbs;
	v.query_port = guarded<query_port_now>;
	v.query_device_ex = guarded<query_device_ex>;
	v.query_rt_values = guarded<query_rt_values>;
	v.create_cq_ex = guarded<create_cq_ex>;
	v.create_qp_ex = guarded<create_qp_ex>;
	v.create_srq_ex = guarded<create_srq_ex>;
	v.alloc_td = guarded<alloc_td>;
	v.dealloc_td = guarded<dealloc_td>;
	v.alloc_parent_domain = guarded<alloc_parent_domain>;
	v.advise_mr = guarded<advise_mr>;
	v.sz = sizeof(verbs_context);
	v.context.abi_compat = reinterpret_cast<void*>(UINTPTR_MAX);  // marks a verbs_context
	ibv_context_ops& ops = v.context.ops;
	ops.poll_cq = poll_cq;
	ops.req_notify_cq = req_notify_cq;
	ops.post_send = post_send;
	ops.post_recv = post_recv;
	ops.post_srq_recv = post_srq_recv;
	trace_data_path(ops);
	order_data_path(ops);
	adverse_data_path(ops);
	check_data_path(ops);
	ops.alloc_mw = guarded<alloc_mw>;
	ops.bind_mw = guarded<bind_mw>;
	ops.dealloc_mw = guarded<dealloc_mw>;
}

// Values of ibv_port_attr::phys_state (IBA 14.2.5.6).
constexpr std::uint8_t polling = 2, disabled = 3, link_up = 5;

std::shared_ptr<const engine::Interface> interface_now(SoftContext& context) {
	refresh_devices();
	return context.device().interface();
}

// The entry is zero.
void fill_entry(ibv_gid_entry& entry, const engine::Interface& interface, const wire::Gid& gid, std::uint32_t index) {
	std::memcpy(entry.gid.raw, gid.data(), 16);
	entry.gid_index = index;
	entry.port_num = 1;
	entry.gid_type = IBV_GID_TYPE_ROCE_V2;
	entry.ndev_ifindex = interface.index;
}

}  // namespace

void describe_port(const SoftDevice& device, ibv_port_attr& a) {
	const auto interface = device.interface();
	a = {};
	a.state = interface->is_active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
	a.max_mtu = IBV_MTU_4096;
	a.active_mtu = static_cast<ibv_mtu>(engine::active_mtu_code(interface->mtu));
	a.gid_tbl_len = engine::gid_table_length;
	a.port_cap_flags = 1 << 16;  // CM supported
	const profile::Limits& most = device_limits();
	a.max_msg_sz = most.message_is_mtu ? 128u << a.active_mtu : most.max_msg_sz;
	a.pkey_tbl_len = 1;
	a.max_vl_num = 1;
	a.active_width = 2;   // 4X
	a.active_speed = 32;  // EDR: 4X is 100 Gbit/s, about the rate of a same-host link
	a.phys_state = interface->is_active ? link_up : interface->is_up ? polling : disabled;
	a.link_layer = IBV_LINK_LAYER_ETHERNET;
	a.flags = IBV_QPF_GRH_REQUIRED;
}

ibv_context* open_device(ibv_device* device) {
	auto engine = process_engine();
	if (!engine) {
		errno = engine.error();
		return nullptr;
	}
	auto context = std::make_unique<SoftContext>();
	int error = context->async_events.error();
	context->number = next_context_number();
	const int cmd_fd = error
		? -1
		: presence::open_device_descriptor(
			  {static_cast<std::uint32_t>(SoftDevice::of(device).index), context->number}, O_CLOEXEC);
	if (cmd_fd < 0) {
		if (!error) error = errno;
		return log::refuse(error, "ibv_open_device: no descriptor for the device: %s", std::strerror(error)), nullptr;
	}
	context->engine = *engine;
	context->verbs.context.device = device;
	context->verbs.context.cmd_fd = cmd_fd;
	context->verbs.context.async_fd = context->async_events.fd();
	context->verbs.context.num_comp_vectors = completion_vectors();
	pthread_mutex_init(&context->verbs.context.mutex, nullptr);
	fill_operations(*context);
	if (!engine::attempt([&] { add_context(*context); })) {
		close(cmd_fd);
		return log::refuse(ENOMEM, "ibv_open_device: no memory"), nullptr;
	}
	return &context.release()->verbs.context;
}

int completion_vectors() {
	return std::clamp(static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)), 2, limits::completion_vectors);
}

int close_device(ibv_context* public_context) {
	SoftContext& context = SoftContext::of(public_context);
	remove_context(context);
	close(public_context->cmd_fd);
	if (context.users) {
		// The program left objects undestroyed. As in a kernel, their queue pairs end with the
		// context, so that peers get no answer. The memory stays, because the program still has
		// pointers to it.
		const auto ends = [&](const transport::QueuePair& qp) {
			return static_cast<const SoftQp*>(qp.cold->user)->public_qp.qp_base.context == public_context;
		};
		context.engine->leave_groups(ends);
		context.engine->control([&](adapter::ChannelAdapter& adapter) {
			adapter.queue_pairs().for_each([&](transport::QueuePair& qp) {
				if (ends(qp)) adapter.modify_qp(qp, {.mask = transport::qp_state, .state = transport::QpState::reset});
			});
			return 0;
		});
		return 0;
	}
	pthread_mutex_destroy(&context.verbs.context.mutex);
	dispose(context);
	return 0;
}

void describe_device(const SoftDevice& device, ibv_device_attr& a) {
	a = {};
	std::snprintf(a.fw_ver, sizeof a.fw_ver, "%s", VERBENA_VERSION);
	a.node_guid = a.sys_image_guid = htobe64(device.guid);
	a.max_mr_size = ~0ull;
	a.page_size_cap = 0xfffff000;
	const profile::Limits& most = device_limits();
	a.vendor_id = most.vendor_id;
	a.vendor_part_id = most.vendor_part_id;
	a.hw_ver = 0;
	a.max_qp = limits::qp;
	a.max_qp_wr = static_cast<int>(most.max_qp_wr);
	a.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_CURR_QP_STATE_MOD |
		IBV_DEVICE_MEM_MGT_EXTENSIONS;
	if (most.windows) a.device_cap_flags |= IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
	// The kernel reports the smaller of the two.
	a.max_sge = static_cast<int>(std::min(most.max_send_sge, most.max_recv_sge));
	a.max_sge_rd = static_cast<int>(most.max_sge_rd);
	a.max_cq = limits::cq;
	a.max_cqe = static_cast<int>(most.max_cqe);
	a.max_mr = limits::mr;
	a.max_pd = limits::pd;
	a.max_qp_rd_atom = static_cast<int>(most.max_qp_rd_atom);
	a.max_res_rd_atom = a.max_qp_rd_atom * limits::qp;
	a.max_qp_init_rd_atom = static_cast<int>(most.max_qp_init_rd_atom);
	// Remote atomics are locked instructions of the target's CPU, so they are atomic with respect
	// to its own; a profile may promise less.
	a.atomic_cap = static_cast<ibv_atomic_cap>(most.atomics);
	a.max_mw = most.windows ? limits::mw : 0;
	a.max_ah = limits::ah;
	a.max_mcast_grp = limits::multicast_groups;
	a.max_mcast_qp_attach = limits::multicast_members;
	a.max_total_mcast_qp_attach = limits::multicast_groups * limits::multicast_members;
	a.max_srq = most.srq ? limits::srq : 0;
	a.max_srq_wr = most.srq ? static_cast<int>(most.max_srq_wr) : 0;
	a.max_srq_sge = most.srq ? static_cast<int>(most.max_srq_sge) : 0;
	a.max_pkeys = 1;
	a.local_ca_ack_delay = 15;
	a.phys_port_cnt = 1;
}

int query_device(ibv_context* context, ibv_device_attr* attributes) {
	describe_device(SoftContext::of(context).device(), *attributes);
	return 0;
}

int query_device_ex(
	ibv_context* context, const ibv_query_device_ex_input*, ibv_device_attr_ex* attributes, std::size_t size) {
	ibv_device_attr_ex full{};
	query_device(context, &full.orig_attr);
	if (device_limits().create_cq_ex) {
		full.completion_timestamp_mask = ~0ull;
		full.hca_core_clock = 1'000'000;  // kHz: completion timestamps are nanoseconds
	}
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	full.max_dm_size = 0;
	full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
	// Registration pins nothing, so every region behaves like one with on-demand paging.
	constexpr std::uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	if (device_limits().paging) {
		full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
		full.odp_caps.per_transport_caps = {
			messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC,
			messages | IBV_ODP_SUPPORT_WRITE, messages};
	}
	std::memset(attributes, 0, size);
	std::memcpy(attributes, &full, std::min(size, sizeof full));
	return 0;
}

// Programs built against another verbs.h have a shorter or longer struct: fill `size` bytes.
int query_port_now(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t size) {
	if (port != 1) return log::refuse(EINVAL, "ibv_query_port: port %d is not 1, the only port", port);
	refresh_devices();
	ibv_port_attr full;
	describe_port(SoftContext::of(context).device(), full);
	std::memset(attributes, 0, size);
	std::memcpy(attributes, &full, std::min(size, sizeof full));
	return 0;
}

int query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
	return query_port_now(context, port, reinterpret_cast<ibv_port_attr*>(attributes), 48);
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
	if (values->comp_mask & ~static_cast<std::uint32_t>(IBV_VALUES_MASK_RAW_CLOCK))
		return log::refuse(EINVAL, "ibv_query_rt_values_ex: comp_mask 0x%x has unknown bits", values->comp_mask);
	clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
	if (port != 1 || index < 0 || index >= static_cast<int>(engine::gid_table_length))
		return log::refuse(EINVAL, "ibv_query_gid: port %d is not 1, or index %d not in 0 to %d", port, index,
				   static_cast<int>(engine::gid_table_length) - 1),
			   -1;
	const auto interface = interface_now(SoftContext::of(context));
	*gid = {};
	if (const wire::Gid* known = engine::gid_at(interface->gids, static_cast<std::size_t>(index)))
		std::memcpy(gid->raw, known->data(), 16);
	return 0;
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
	std::uint32_t flags, std::size_t entry_size) {
	if (flags || port != 1 || index >= engine::gid_table_length || entry_size < sizeof(ibv_gid_entry))
		return log::refuse(EINVAL, "ibv_query_gid_ex: port %u is not 1, index %u not below %u, or flags 0x%x not 0",
			port, index, static_cast<unsigned>(engine::gid_table_length), flags);
	const auto interface = interface_now(SoftContext::of(context));
	const wire::Gid* gid = engine::gid_at(interface->gids, index);
	if (!gid) {
		// Programs search the whole table this way, so this is no line of level info.
		log::debug("ibv_query_gid_ex: index %u is empty", index);
		return errno = ENODATA;
	}
	std::memset(entry, 0, entry_size);
	fill_entry(*entry, *interface, *gid, index);
	return 0;
}

ssize_t query_gid_table(
	ibv_context* context, ibv_gid_entry* entries, std::size_t count_max, std::uint32_t flags, std::size_t entry_size) {
	const auto interface = interface_now(SoftContext::of(context));
	const engine::GidTable& gids = interface->gids;
	std::size_t count = 0;
	for (std::size_t i = 0; i < gids.size(); ++i) count += engine::gid_at(gids, i) != nullptr;
	if (flags || entry_size < sizeof(ibv_gid_entry) || count > count_max)
		return -log::refuse(EINVAL,
			"ibv_query_gid_table: room for %zu entries, but there are %zu; or flags 0x%x are not 0", count_max, count,
			flags);
	auto* at = reinterpret_cast<std::byte*>(entries);
	for (std::size_t i = 0; i < gids.size(); ++i) {
		const wire::Gid* gid = engine::gid_at(gids, i);
		if (!gid) continue;
		std::memset(at, 0, entry_size);
		fill_entry(*reinterpret_cast<ibv_gid_entry*>(at), *interface, *gid, static_cast<std::uint32_t>(i));
		at += entry_size;
	}
	return static_cast<ssize_t>(count);
}

int query_gid_type(ibv_context* context, std::uint8_t port, unsigned int index, unsigned int* type) {
	if (port != 1 || index >= engine::gid_table_length)
		return log::refuse(EINVAL, "ibv_query_gid_type: port %d is not 1, or index %u not below %u", port, index,
				   static_cast<unsigned>(engine::gid_table_length)),
			   -1;
	// As the kernel's sysfs files do, report type 0 for an empty slot.
	*type = engine::gid_at(interface_now(SoftContext::of(context))->gids, index) ? 1 : 0;
	return 0;
}

int query_pkey(ibv_context*, std::uint8_t port, int index, __be16* pkey) {
	if (port != 1 || index != 0)
		return log::refuse(EINVAL, "ibv_query_pkey: port %d is not 1, or index %d not 0, the only key", port, index),
			   -1;
	*pkey = htobe16(0xffff);
	return 0;
}

int get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey) {
	if (port != 1 || pkey != htobe16(0xffff))
		return log::refuse(EINVAL, "ibv_get_pkey_index: port %d is not 1, or P_Key 0x%x not 0xffff, the only key", port,
				   be16toh(pkey)),
			   -1;
	return 0;
}

}  // namespace verbena::verbs
