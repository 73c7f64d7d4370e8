// SPDX-License-Identifier: Apache-2.0
// Queue pairs: creation, ibv_query_qp(3), destruction, and multicast groups. modify_queue_pair.cc
// has ibv_modify_qp(3).
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/log.h"
#include "nic/profile/depth.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/direct.h"
#include "nic/verbs/limits.h"
#include "nic/verbs/overdue.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/strict.h"

namespace verbena::verbs {

using transport::QpState;
using transport::QpType;
using transport::QueuePair;

static_assert(IBV_QPS_ERR == static_cast<int>(QpState::error) && IBV_QPT_UD == static_cast<int>(QpType::ud));

namespace {

// Returns 0, or EINVAL and names the value that is too large.
int check_capabilities(const ibv_qp_cap& cap) {
	const profile::Limits& most = device_limits();
	const std::uint32_t sends = profile::send_depth(most, cap.max_send_sge, cap.max_inline_data).most;
	const std::uint32_t receives = profile::receive_depth(most, cap.max_recv_sge).most;
	const struct {
		const char* name;
		std::uint32_t wanted, limit;
		const char* advice = "";
	} all[] = {{"max_send_wr", cap.max_send_wr, sends}, {"max_recv_wr", cap.max_recv_wr, receives},
		{"max_send_sge", cap.max_send_sge, most.max_send_sge}, {"max_recv_sge", cap.max_recv_sge, most.max_recv_sge},
		{"max_inline_data", cap.max_inline_data, most.max_inline_data,
			"; no query returns this limit, so ask for less until it is granted"}};
	for (const auto& each : all)
		if (each.wanted > each.limit)
			return refuse_figure("ibv_create_qp", each.name, each.wanted, each.limit, each.advice);
	return 0;
}

// Raises the capabilities to those that the queue pair will have (ibv_create_qp(3)). Inline data
// uses the WQE's space for segments, so at least that much inline data is free; but a profile may
// grant no more than what was asked.
void grant(ibv_qp_cap& cap, bool shared_receives) {
	const profile::Limits& most = device_limits();
	const auto entries = [](const profile::Depth& depth, std::uint32_t wanted) {
		return is_strict() ? wanted : depth.granted(wanted);
	};
	cap.max_send_sge = std::max(cap.max_send_sge, 1u);
	cap.max_send_wr =
		std::max(entries(profile::send_depth(most, cap.max_send_sge, cap.max_inline_data), cap.max_send_wr), 1u);
	cap.max_recv_sge = shared_receives ? 0 : std::max(cap.max_recv_sge, 1u);
	cap.max_recv_wr = shared_receives ? 0 : entries(profile::receive_depth(most, cap.max_recv_sge), cap.max_recv_wr);
	if (is_strict() || most.grants == profile::Inline::as_asked) return;
	const std::uint32_t free = std::max<std::uint32_t>(cap.max_inline_data, cap.max_send_sge * sizeof(ibv_sge));
	cap.max_inline_data = std::min((free + 31) & ~31u, most.max_inline_data);
}

adapter::QpInit adapter_init(ibv_pd* pd, const ibv_qp_init_attr& init, SoftQp& sqp) {
	return {.type = static_cast<QpType>(init.qp_type),
		.protection_domain = SoftPd::of(pd).number,
		.send_cq = SoftCq::of(init.send_cq).queue.get(),
		.recv_cq = SoftCq::of(init.recv_cq).queue.get(),
		.shared_receive_queue = init.srq ? SoftSrq::of(init.srq).queue.get() : nullptr,
		.send_entries = init.cap.max_send_wr,
		.receive_entries = init.cap.max_recv_wr,
		.send_segments = static_cast<std::uint16_t>(init.cap.max_send_sge),
		.receive_segments = static_cast<std::uint16_t>(init.cap.max_recv_sge),
		.inline_bytes = static_cast<std::uint16_t>(init.cap.max_inline_data),
		.signal_all = init.sq_sig_all != 0,
		.user = &sqp};
}

void fill_public(ibv_qp& public_qp, ibv_pd* pd, const ibv_qp_init_attr& init, std::uint32_t qpn) {
	public_qp.context = pd->context;
	public_qp.qp_context = init.qp_context;
	public_qp.pd = pd;
	public_qp.send_cq = init.send_cq;
	public_qp.recv_cq = init.recv_cq;
	public_qp.srq = init.srq;
	public_qp.handle = public_qp.qp_num = qpn;
	public_qp.state = IBV_QPS_RESET;
	public_qp.qp_type = init.qp_type;
	pthread_mutex_init(&public_qp.mutex, nullptr);
	pthread_cond_init(&public_qp.cond, nullptr);
}

// The queue pair is a user of its PD, CQs and SRQ until it is destroyed (+1, -1).
void count_as_user(ibv_pd* pd, const ibv_qp_init_attr& init, int change) {
	SoftPd::of(pd).users += change;
	SoftCq::of(init.send_cq).users += change;
	SoftCq::of(init.recv_cq).users += change;
	if (init.srq) SoftSrq::of(init.srq).users += change;
}

const char* name_of(ibv_qp_type type) { return type == IBV_QPT_RC ? "RC" : type == IBV_QPT_UC ? "UC" : "UD"; }

ibv_qp* make_qp(ibv_pd* pd, ibv_qp_init_attr& init) {
	if (init.qp_type != IBV_QPT_RC && init.qp_type != IBV_QPT_UC && init.qp_type != IBV_QPT_UD)
		return log::refuse(EOPNOTSUPP, "ibv_create_qp: qp_type %d is not RC, UC or UD", static_cast<int>(init.qp_type)),
			   nullptr;
	if (!has_type(init.qp_type))
		return refuse_by_profile(EOPNOTSUPP, "ibv_create_qp: the device has no %s queue pairs", name_of(init.qp_type)),
			   nullptr;
	if (!init.send_cq || !init.recv_cq)
		return log::refuse(EINVAL, "ibv_create_qp: send_cq or recv_cq is NULL"), nullptr;
	if (check_capabilities(init.cap) != 0) return nullptr;
	auto sqp = std::make_unique<SoftQp>();
	SoftContext& context = SoftContext::of(pd->context);
	grant(init.cap, init.srq != nullptr);
	auto created = context.engine->create_qp(adapter_init(pd, init, *sqp));
	if (!created)
		return log::refuse(created.error(), "ibv_create_qp: no queue pair number or memory: %s",
				   std::strerror(created.error())),
			   nullptr;
	QueuePair& qp = **created;
	if (init.qp_type == IBV_QPT_UD) {
		// A datagram queue pair has no path MTU attribute; it uses the port's MTU.
		qp.mtu_code = engine::active_mtu_code(context.device().interface()->mtu);
		qp.mtu_shift = static_cast<std::uint8_t>(7 + qp.mtu_code);
	}
	sqp->qp = &qp;
	sqp->engine = context.engine;
	sqp->send_segments_max = static_cast<std::uint16_t>(init.cap.max_send_sge);
	sqp->inline_max = static_cast<std::uint16_t>(init.cap.max_inline_data);
	sqp->read_segments_max = static_cast<std::uint16_t>(std::min(init.cap.max_send_sge, device_limits().max_sge_rd));
	sqp->opcodes = opcodes_of(init.qp_type);
	sqp->init = init;
	sqp->attributes.qp_state = IBV_QPS_RESET;
	sqp->attributes.path_mig_state = IBV_MIG_MIGRATED;
	fill_public(*sqp->base(), pd, init, qp.qpn);
	count_as_user(pd, init, 1);
	fill_extended_post(*sqp);
	return sqp.release()->base();
}

// Runs passes until none has the queue pair's doorbell on its list, which must not outlive it.
void drain_doorbell(SoftQp& sqp) {
	while (sqp.qp->doorbell.load(std::memory_order_acquire))
		sqp.engine->control([](adapter::ChannelAdapter&) { return 0; });
}

}  // namespace

void purge_completions(SoftQp& sqp) {
	for (ibv_cq* public_cq : {sqp.init.send_cq, sqp.init.recv_cq}) {
		queues::CompletionQueue& queue = *SoftCq::of(public_cq).queue;
		queue.lock.lock();
		sqp.engine->control([&](adapter::ChannelAdapter&) {
			queue.remove(sqp.base()->qp_num);
			return 0;
		});
		queue.lock.unlock();
		if (sqp.init.send_cq == sqp.init.recv_cq) break;
	}
}

ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* init) { return make_qp(pd, *init); }

ibv_qp* create_qp_ex(ibv_context*, ibv_qp_init_attr_ex* init) {
	constexpr std::uint32_t known =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (!(init->comp_mask & IBV_QP_INIT_ATTR_PD) || !init->pd)
		return log::refuse(EINVAL, "ibv_create_qp_ex: comp_mask needs IBV_QP_INIT_ATTR_PD, and pd a value"), nullptr;
	if (init->comp_mask & ~known)
		return log::refuse(
				   EOPNOTSUPP, "ibv_create_qp_ex: comp_mask bits 0x%x are not supported", init->comp_mask & ~known),
			   nullptr;
	if ((init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) && init->create_flags)
		return log::refuse(EOPNOTSUPP, "ibv_create_qp_ex: create_flags 0x%x are not supported", init->create_flags),
			   nullptr;
	// With IBV_QP_INIT_ATTR_PD alone libibverbs calls ibv_create_qp.
	if (!device_limits().create_qp_ex && init->comp_mask != IBV_QP_INIT_ATTR_PD)
		return refuse_by_profile(EOPNOTSUPP, "ibv_create_qp_ex: the device's provider lacks it"), nullptr;
	if (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		if (const std::uint64_t missing = init->send_ops_flags & ~operations_of(init->qp_type))
			return log::refuse(EOPNOTSUPP, "ibv_create_qp_ex: send_ops_flags 0x%llx are not supported for this qp_type",
					   static_cast<unsigned long long>(missing)),
				   nullptr;
	}
	ibv_qp_init_attr basic{
		init->qp_context, init->send_cq, init->recv_cq, init->srq, init->cap, init->qp_type, init->sq_sig_all};
	ibv_qp* qp = make_qp(init->pd, basic);
	if (!qp) return nullptr;
	init->cap = basic.cap;
	if (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		SoftQp& sqp = SoftQp::of(qp);
		sqp.build.allowed = true;
		// As with mlx5, requests can be built that were not asked for. A strict NIC refuses them,
		// since other providers have no function for them.
		sqp.build.opcodes = is_strict() ? opcodes_of_operations(init->send_ops_flags) : sqp.opcodes;
	}
	return qp;
}

// All attributes are written, whatever the mask asks for, as by the kernel. The public struct's
// state changes only if the mask asks for the state, as in libibverbs: programs keep their own view
// of the state there.
int query_qp(ibv_qp* public_qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init) {
	SoftQp& sqp = SoftQp::of(public_qp);
	*attributes = sqp.attributes;
	*init = sqp.init;
	attributes->cap = sqp.init.cap;
	attributes->qp_state = attributes->cur_qp_state = static_cast<ibv_qp_state>(sqp.qp->state.load());
	attributes->sq_draining = sqp.qp->cold->draining;
	if (mask & IBV_QP_STATE) public_qp->state = attributes->qp_state;
	return 0;
}

int destroy_qp(engine::BlockingCall& call, ibv_qp* public_qp) {
	SoftQp& sqp = SoftQp::of(public_qp);
	// Done before, if a thread was cancelled in the wait below.
	if (sqp.qp) {
		drain_doorbell(sqp);
		const bool destroyed = sqp.engine->control([&](adapter::ChannelAdapter& adapter) {
			if (adapter.is_multicast_member(*sqp.qp)) return false;
			adapter.destroy_qp(*std::exchange(sqp.qp, nullptr));
			return true;
		});
		if (!destroyed)
			return log::refuse(EBUSY,
				"ibv_destroy_qp: the queue pair is attached to a multicast group; detach it with ibv_detach_mcast");
		if (public_qp->qp_type == IBV_QPT_RC) await_peers_of_queue_pair(*sqp.engine, public_qp->qp_num);
		purge_completions(sqp);
	}
	SoftContext::of(public_qp->context).async_events.remove_if([&](const ibv_async_event& event) {
		return element_of(event) == Element::qp && event.element.qp == public_qp;
	});
	const auto all = [&] { return public_qp->events_completed == sqp.delivered.asynchronous; };
	const auto overdue = [&] {
		explain_unacknowledged("ibv_destroy_qp", 0, sqp.delivered.asynchronous - public_qp->events_completed);
	};
	if (!sqp.acknowledged.reached(public_qp->mutex, call, all, overdue)) return 0;
	count_as_user(public_qp->pd, sqp.init, -1);
	dispose(sqp);
	return 0;
}

// NULL, as in libibverbs, where providers set VERBS_QP_EX for these queue pairs alone.
ibv_qp_ex* qp_to_qp_ex(ibv_qp* qp) {
	SoftQp& sqp = SoftQp::of(qp);
	if (sqp.build.allowed) return &sqp.public_qp;
	log::refuse(EINVAL, "ibv_qp_to_qp_ex: the queue pair was made without IBV_QP_INIT_ATTR_SEND_OPS_FLAGS");
	return nullptr;
}

// The NIC stores a WRITE's payload in ascending order, last byte last (memory/guarded_copy.h), but
// does not promise it to programs: 0.
int query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) { return 0; }

// Enhanced connection establishment negotiates vendors' own options; this NIC has none.
int query_ece(ibv_qp*, ibv_ece*) { return log::refuse(EOPNOTSUPP, "ibv_query_ece: this NIC has no ECE"); }
int set_ece(ibv_qp*, ibv_ece*) { return log::refuse(EOPNOTSUPP, "ibv_set_ece: this NIC has no ECE"); }

bool is_multicast_member(const SoftQp& sqp) {
	return sqp.public_qp.qp_base.qp_type == IBV_QPT_UD &&
		sqp.engine->control([&](adapter::ChannelAdapter& adapter) { return adapter.is_multicast_member(*sqp.qp); });
}

void leave_groups(ibv_qp* public_qp) {
	if (!is_ours(public_qp->context) || public_qp->qp_type != IBV_QPT_UD) return;
	const SoftQp& sqp = SoftQp::of(public_qp);
	sqp.engine->leave_groups([&](const QueuePair& qp) { return &qp == sqp.qp; });
}

namespace {

// The group of the GID, or nothing, with the reason in the log.
std::optional<wire::Gid> group_of(const char* call, const ibv_qp& qp, const ibv_gid& gid) {
	wire::Gid group;
	std::memcpy(group.data(), gid.raw, group.size());
	if (qp.qp_type == IBV_QPT_UD && wire::is_multicast(group)) return group;
	log::refuse(EINVAL, "%s: the queue pair is not UD, or the GID no multicast GID", call);
	return {};
}

}  // namespace

int attach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t) {
	const auto group = group_of("ibv_attach_mcast", *qp, *gid);
	if (!group) return EINVAL;
	SoftQp& sqp = SoftQp::of(qp);
	const std::uint32_t interface_index = SoftContext::of(qp->context).device().interface_index;
	const auto attached = sqp.engine->attach_multicast(*sqp.qp, *group, interface_index);
	return attached ? 0 : log::refuse(attached.error(), "ibv_attach_mcast: %s", std::strerror(attached.error()));
}
int detach_mcast(ibv_qp* qp, const ibv_gid* gid, std::uint16_t) {
	const auto group = group_of("ibv_detach_mcast", *qp, *gid);
	if (!group) return EINVAL;
	SoftQp& sqp = SoftQp::of(qp);
	const auto detached = sqp.engine->detach_multicast(*sqp.qp, *group);
	return detached ? 0
					: log::refuse(detached.error(), "ibv_detach_mcast: the queue pair is not attached to the group");
}

}  // namespace verbena::verbs
