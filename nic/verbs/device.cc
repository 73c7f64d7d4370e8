// Opening a device, and the queries of its attributes, port and GIDs.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <endian.h>
#include <new>

#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/unsupported_ops.h"

namespace verbena::verbs {
namespace {

int fail(int error) {
	errno = error;
	return -1;
}

void fill_operations(SoftContext& context) {
	fill_unsupported(&context.verbs);
	verbs_context& v = context.verbs;
	v.query_port = query_port_now;
	v.query_device_ex = query_device_ex;
	v.query_rt_values = query_rt_values;
	v.create_cq_ex = create_cq_ex;
	v.create_qp_ex = create_qp_ex;
	v.create_srq_ex = create_srq_ex;
	v.alloc_td = alloc_td;
	v.dealloc_td = dealloc_td;
	v.alloc_parent_domain = alloc_parent_domain;
	v.advise_mr = advise_mr;
	v.sz = sizeof(verbs_context);
	v.context.abi_compat = reinterpret_cast<void*>(UINTPTR_MAX);  // marks a verbs_context
	ibv_context_ops& ops = v.context.ops;
	ops.poll_cq = poll_cq;
	ops.req_notify_cq = req_notify_cq;
	ops.post_send = post_send;
	ops.post_recv = post_recv;
	ops.post_srq_recv = post_srq_recv;
	ops.alloc_mw = alloc_mw;
	ops.bind_mw = bind_mw;
	ops.dealloc_mw = dealloc_mw;
}

void fill_port(SoftContext& context, ibv_port_attr& a) {
	const engine::Interface& interface = context.device().interface;
	a = {};
	a.state = IBV_PORT_ACTIVE;
	a.max_mtu = IBV_MTU_4096;
	a.active_mtu = static_cast<ibv_mtu>(engine::active_mtu_code(interface.mtu));
	a.gid_tbl_len = engine::gid_table_length;
	a.port_cap_flags = 1 << 16;  // CM supported
	a.max_msg_sz = limits::message;
	a.pkey_tbl_len = 1;
	a.max_vl_num = 1;
	a.active_width = 2;   // 4X
	a.active_speed = 32;  // EDR: 4X is 100 Gbit/s, about the rate of a same-host link
	a.phys_state = 5;     // link up
	a.link_layer = IBV_LINK_LAYER_ETHERNET;
	a.flags = IBV_QPF_GRH_REQUIRED;
}

}  // namespace

ibv_context* open_device(ibv_device* device) {
	auto engine = process_engine();
	if (!engine) {
		errno = engine.error();
		return nullptr;
	}
	auto* context = new (std::nothrow) SoftContext;
	if (!context) {
		errno = ENOMEM;
		return nullptr;
	}
	context->engine = *engine;
	context->verbs.context.device = device;
	context->verbs.context.cmd_fd = -1;
	context->verbs.context.async_fd = context->async_events.fd();
	context->verbs.context.num_comp_vectors = 1;
	pthread_mutex_init(&context->verbs.context.mutex, nullptr);
	fill_operations(*context);
	add_context(*context);
	return &context->verbs.context;
}

int close_device(ibv_context* public_context) {
	SoftContext& context = SoftContext::of(public_context);
	remove_context(context);
	if (context.users) {
		// The program left objects undestroyed. As in a kernel, their queue pairs end with the
		// context, so that peers get no answer. The memory stays, because the program still has
		// pointers to it.
		context.engine->control([&](adapter::ChannelAdapter& adapter) {
			adapter.queue_pairs().for_each([&](transport::QueuePair& qp) {
				if (static_cast<SoftQp*>(qp.cold->user)->public_qp.qp_base.context != public_context) return;
				adapter.modify_qp(qp, {.mask = transport::qp_state, .state = transport::QpState::reset});
			});
			return 0;
		});
		return 0;
	}
	pthread_mutex_destroy(&context.verbs.context.mutex);
	delete &context;
	return 0;
}

int query_device(ibv_context* context, ibv_device_attr* a) {
	*a = {};
	std::snprintf(a->fw_ver, sizeof a->fw_ver, "0.1.0");
	a->node_guid = a->sys_image_guid = get_device_guid(context->device);
	a->max_mr_size = ~0ull;
	a->page_size_cap = 0xfffff000;
	a->vendor_id = 0x766273;  // "vbs"; not an assigned OUI, but pyverbs refuses 0
	a->vendor_part_id = 1;
	a->hw_ver = 0;
	a->max_qp = limits::qp;
	a->max_qp_wr = limits::qp_wr;
	a->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_CURR_QP_STATE_MOD |
		IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS;
	a->max_sge = limits::sge;
	a->max_sge_rd = limits::sge;
	a->max_cq = limits::cq;
	a->max_cqe = limits::cqe;
	a->max_mr = limits::mr;
	a->max_pd = limits::pd;
	a->max_qp_rd_atom = limits::rd_atomic;
	a->max_res_rd_atom = limits::rd_atomic * limits::qp;
	a->max_qp_init_rd_atom = limits::rd_atomic;
	a->atomic_cap = IBV_ATOMIC_HCA;
	a->max_mw = limits::mw;
	a->max_ah = limits::ah;
	a->max_mcast_grp = limits::multicast_groups;
	a->max_mcast_qp_attach = limits::multicast_members;
	a->max_total_mcast_qp_attach = limits::multicast_groups * limits::multicast_members;
	a->max_srq = limits::srq;
	a->max_srq_wr = limits::srq_wr;
	a->max_srq_sge = limits::sge;
	a->max_pkeys = 1;
	a->local_ca_ack_delay = 15;
	a->phys_port_cnt = 1;
	return 0;
}

int query_device_ex(
	ibv_context* context, const ibv_query_device_ex_input*, ibv_device_attr_ex* attributes, std::size_t size) {
	ibv_device_attr_ex full{};
	query_device(context, &full.orig_attr);
	full.completion_timestamp_mask = ~0ull;
	full.hca_core_clock = 1'000'000;  // kHz: completion timestamps are nanoseconds
	full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
	full.max_dm_size = 0;
	full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
	// Registration pins nothing, so every region behaves like one with on-demand paging.
	constexpr std::uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	full.odp_caps.per_transport_caps = {
		messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC,
		messages | IBV_ODP_SUPPORT_WRITE, messages};
	std::memset(attributes, 0, size);
	std::memcpy(attributes, &full, std::min(size, sizeof full));
	return 0;
}

// Programs built against another verbs.h have a shorter or longer struct: fill `size` bytes.
int query_port_now(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes, std::size_t size) {
	if (port != 1) return errno = EINVAL;
	ibv_port_attr full;
	fill_port(SoftContext::of(context), full);
	std::memset(attributes, 0, size);
	std::memcpy(attributes, &full, std::min(size, sizeof full));
	return 0;
}

int query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* attributes) {
	return query_port_now(context, port, reinterpret_cast<ibv_port_attr*>(attributes), 48);
}

int query_rt_values(ibv_context*, ibv_values_ex* values) {
	if (values->comp_mask & ~static_cast<std::uint32_t>(IBV_VALUES_MASK_RAW_CLOCK)) return errno = EINVAL;
	clock_gettime(CLOCK_MONOTONIC, &values->raw_clock);
	values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	return 0;
}

int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
	if (port != 1 || index < 0 || index >= static_cast<int>(engine::gid_table_length)) return fail(EINVAL);
	const auto& gids = SoftContext::of(context).device().interface.gids;
	*gid = {};
	if (static_cast<std::size_t>(index) < gids.size())
		std::memcpy(gid->raw, gids[static_cast<std::size_t>(index)].data(), 16);
	return 0;
}

int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
	std::uint32_t flags, std::size_t entry_size) {
	if (flags || port != 1 || index >= engine::gid_table_length || entry_size < sizeof(ibv_gid_entry))
		return errno = EINVAL;
	const engine::Interface& interface = SoftContext::of(context).device().interface;
	if (index >= interface.gids.size()) return errno = ENODATA;
	std::memset(entry, 0, entry_size);
	std::memcpy(entry->gid.raw, interface.gids[index].data(), 16);
	entry->gid_index = index;
	entry->port_num = 1;
	entry->gid_type = IBV_GID_TYPE_ROCE_V2;
	entry->ndev_ifindex = interface.index;
	return 0;
}

ssize_t query_gid_table(
	ibv_context* context, ibv_gid_entry* entries, std::size_t count_max, std::uint32_t flags, std::size_t entry_size) {
	const std::size_t count = SoftContext::of(context).device().interface.gids.size();
	if (flags || entry_size < sizeof(ibv_gid_entry) || count > count_max) {
		errno = EINVAL;
		return -EINVAL;
	}
	for (std::size_t i = 0; i < count; ++i) {
		auto* entry = reinterpret_cast<ibv_gid_entry*>(reinterpret_cast<std::byte*>(entries) + i * entry_size);
		query_gid_ex(context, 1, static_cast<std::uint32_t>(i), entry, 0, entry_size);
	}
	return static_cast<ssize_t>(count);
}

int query_gid_type(ibv_context* context, std::uint8_t port, unsigned int index, unsigned int* type) {
	if (port != 1 || index >= engine::gid_table_length) return fail(EINVAL);
	// As the kernel's sysfs files do, report type 0 for an empty slot.
	if (index >= SoftContext::of(context).device().interface.gids.size()) {
		*type = 0;
		return 0;
	}
	*type = 1;
	return 0;
}

int query_pkey(ibv_context*, std::uint8_t port, int index, __be16* pkey) {
	if (port != 1 || index != 0) return fail(EINVAL);
	*pkey = htobe16(0xffff);
	return 0;
}

int get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey) {
	if (port != 1 || pkey != htobe16(0xffff)) return fail(EINVAL);
	return 0;
}

}  // namespace verbena::verbs
