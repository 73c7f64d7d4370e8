// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/checked_calls.h"

#include <cerrno>

#include "base/log.h"
#include "base/time.h"
#include "nic/engine/boundary.h"
#include "nic/presence/got.h"
#include "nic/transport/qp_state.h"
#include "nic/verbs/checked_advice.h"

namespace verbena::verbs {
namespace {

using rules::Kind;

template <class Act> void tell(Act&& act) {
	const int kept = errno;
	engine::attempt([&] { act(*checked()); });
	errno = kept;
}

void made(Kind kind, rules::Handle handle, std::vector<rules::Handle> uses) {
	tell([&](rules::Book& book) { book.made(kind, handle, std::move(uses), site_here()); });
}

void destroys(rules::Handle handle) {
	tell([&](rules::Book& book) { book.destroys(handle, site_here()); });
}

void destroyed(int error, Kind kind, rules::Handle handle) {
	tell([&](rules::Book& book) {
		if (!error) book.destroyed(kind, handle);
		else if (error == EBUSY) book.refused_destroy(handle, site_here());
	});
}

void await_acknowledgements(Kind kind, rules::Handle handle, std::uint32_t fetched, std::uint32_t acknowledged) {
	if (fetched == acknowledged) return;
	tell([&](rules::Book& book) {
		book.destroys_with_events(kind, handle, fetched - acknowledged, site_here(), monotonic_now());
	});
}

void registered(ibv_mr* mr, unsigned access) {
	see_advice();
	tell([&](rules::Book& book) {
		const rules::Site site = site_here();
		if (!mr) return book.region_refused(access, site);
		const SoftMr& region = SoftMr::of(mr);
		book.made(Kind::mr, mr, {mr->pd}, site);
		book.registered(mr,
			{.lkey = mr->lkey,
				.rkey = mr->rkey,
				.begin = reinterpret_cast<std::uint64_t>(mr->addr),
				.length = mr->length,
				.access = region.access},
			site);
	});
}

void made_cq(ibv_cq* cq) {
	if (!cq) return;
	made(Kind::cq, cq, {cq->channel});
	tell([&](rules::Book& book) {
		book.completion_queue_made(cq, static_cast<std::uint32_t>(cq->cqe), cq->channel, site_here());
	});
}

// Whether the verb was called by rdma_create_qp() and not by the program.
bool is_called_by_rdma_cm() {
	const rules::Stack stack = rules::stack_here();
	const link_map* const object =
		stack.depth ? presence::object_of(reinterpret_cast<const void*>(stack.frames[0] - 1)) : nullptr;
	return object && std::string_view(object->l_name).contains("librdmacm");
}

void made_qp(ibv_qp* qp, const ibv_qp_init_attr& init) {
	if (!qp) return;
	made(Kind::qp, qp, {qp->pd, qp->send_cq, qp->recv_cq, qp->srq});
	tell([&](rules::Book& book) {
		book.queue_pair_made(qp,
			{.qpn = qp->qp_num,
				.type = qp->qp_type,
				.device = qp->context->device,
				.made_by_rdma_cm = is_called_by_rdma_cm(),
				.send_cq = qp->send_cq,
				.receive_cq = qp->recv_cq,
				.srq = qp->srq,
				.signal_all = init.sq_sig_all != 0,
				.send_requests_max = init.cap.max_send_wr,
				.receives_max = init.cap.max_recv_wr,
				.inline_max = init.cap.max_inline_data,
				.mtu = SoftQp::of(qp).qp->path_mtu()},
			site_here());
	});
}

// Only those that another device may grant.
void refused_qp(const ibv_qp_cap& cap) {
	const int error = errno;
	if (error != EINVAL && error != ENOMEM && error != EOPNOTSUPP) return;
	tell([&](rules::Book& book) {
		book.queue_pair_refused(
			{.send_requests_max = cap.max_send_wr, .receives_max = cap.max_recv_wr, .inline_max = cap.max_inline_data},
			error, site_here());
	});
}

bool is_link_local(const wire::Gid& gid) { return gid[0] == 0xfe && (gid[1] & 0xc0) == 0x80; }

// The first index of a GID that is not link-local, if the one at `chosen` is.
std::optional<unsigned> better_index(const SoftDevice& device, unsigned chosen) {
	const auto interface = device.interface();
	const auto gid = engine::gid_at(interface->gids, chosen);
	if (!gid || !is_link_local(*gid)) return std::nullopt;
	constexpr unsigned indices = 256;
	for (unsigned index = 0; index < indices; ++index)
		if (const auto other = engine::gid_at(interface->gids, index); other && !is_link_local(*other)) return index;
	return std::nullopt;
}

// The change of an attribute that IBV_QPS_SQD allows, and IBV_QPS_RTS, its state, does not.
bool needs_sqd(const transport::QueuePair& qp, const ibv_qp_attr& a, int mask) {
	using transport::QpState;
	if (qp.state != QpState::rts || (mask & IBV_QP_STATE && a.qp_state != IBV_QPS_RTS)) return false;
	const auto bits = static_cast<std::uint32_t>(mask);
	return !transport::modify_allowed(qp.type, QpState::rts, QpState::rts, bits) &&
		transport::modify_allowed(qp.type, QpState::sqd, QpState::sqd, bits);
}

// The port of a call that was refused, if no device of ours has it.
void check_port(rules::Book& book, unsigned port) {
	constexpr unsigned ports = 1;
	if (port > ports) book.port_refused(port, site_here());
}

rules::ChangeFacts facts_of(ibv_qp* qp, const ibv_qp_attr& a, int mask) {
	rules::ChangeFacts facts;
	if (mask & IBV_QP_STATE) facts.state = a.qp_state;
	if (mask & IBV_QP_SQ_PSN && qp->qp_type != IBV_QPT_UD) facts.first_psn = a.sq_psn;
	if (mask & IBV_QP_QKEY) facts.q_key = a.qkey;
	facts.waits_for_ever = mask & IBV_QP_TIMEOUT && a.timeout == 0;
	facts.never_retries = mask & IBV_QP_RETRY_CNT && a.retry_cnt == 0;
	if (mask & IBV_QP_AV)
		facts.routable_index = better_index(SoftContext::of(qp->context).device(), a.ah_attr.grh.sgid_index);
	return facts;
}

}  // namespace

bool is_ghost(rules::Handle handle, const char* verb) {
	bool ghost = false;
	tell([&](rules::Book& book) { ghost = book.is_ghost(handle, verb, site_here()); });
	return ghost && log::refuse(EINVAL, "%s: the object was destroyed before", verb);
}

void note_id_end(std::uint32_t qpn) noexcept {
	if (checked()) tell([&](rules::Book& book) { book.id_destroyed(qpn, site_here()); });
}

void Checks<query_device>::after(int error, ibv_context*, ibv_device_attr*) {
	if (!error) checked()->asked_device();
}
void Checks<query_device_ex>::after(
	int error, ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, std::size_t) {
	if (!error) checked()->asked_device();
}

void Checks<alloc_pd>::after(ibv_pd* pd, ibv_context*) {
	if (pd) made(Kind::pd, pd, {});
}
void Checks<alloc_parent_domain>::after(ibv_pd* pd, ibv_context*, ibv_parent_domain_init_attr*) {
	if (pd) made(Kind::pd, pd, {SoftPd::of(pd).parent});
}
void Checks<dealloc_pd>::before(ibv_pd* pd) { destroys(pd); }
void Checks<dealloc_pd>::after(int error, ibv_pd* pd) { destroyed(error, Kind::pd, pd); }

void Checks<reg_mr>::after(ibv_mr* mr, ibv_pd*, void*, std::size_t, int access) {
	registered(mr, static_cast<unsigned>(access));
}
void Checks<reg_mr_iova>::after(ibv_mr* mr, ibv_pd*, void*, std::size_t, std::uint64_t, int access) {
	registered(mr, static_cast<unsigned>(access));
}
void Checks<reg_mr_iova2>::after(ibv_mr* mr, ibv_pd*, void*, std::size_t, std::uint64_t, unsigned access) {
	registered(mr, access);
}
void Checks<rereg_mr>::before(ibv_mr* mr, int, ibv_pd*, void*, std::size_t, int) {
	tell([&](rules::Book& book) { book.deregisters(mr, site_here()); });
}
void Checks<rereg_mr>::after(int error, ibv_mr* mr, int, ibv_pd*, void*, std::size_t, int) {
	if (!error) registered(mr, 0);
}
void Checks<dereg_mr>::before(ibv_mr* mr) {
	destroys(mr);
	tell([&](rules::Book& book) { book.deregisters(mr, site_here()); });
}
void Checks<dereg_mr>::after(int error, ibv_mr* mr) {
	tell([&](rules::Book& book) {
		if (!error) book.destroyed(Kind::mr, mr);
		else if (error == EBUSY) book.deregister_refused(mr, site_here());
	});
}

void Checks<create_comp_channel>::after(ibv_comp_channel* channel, ibv_context*) {
	if (channel) made(Kind::channel, channel, {});
}
void Checks<destroy_comp_channel>::before(ibv_comp_channel* channel) {
	destroys(channel);
	tell([&](rules::Book& book) { book.destroys_channel(channel, site_here()); });
}
void Checks<destroy_comp_channel>::after(int error, ibv_comp_channel* channel) {
	destroyed(error, Kind::channel, channel);
}
void Checks<create_cq>::after(ibv_cq* cq, ibv_context* context, int, void*, ibv_comp_channel*, int vector) {
	made_cq(cq);
	if (!cq && vector >= context->num_comp_vectors)
		tell([&](rules::Book& book) { book.vector_refused(vector, context->num_comp_vectors, site_here()); });
}
void Checks<create_cq_ex>::after(ibv_cq_ex* cq, ibv_context*, ibv_cq_init_attr_ex*) {
	if (cq) made_cq(ibv_cq_ex_to_cq(cq));
}
void Checks<destroy_cq>::before(ibv_cq* cq) {
	const SoftCq& soft = SoftCq::of(cq);
	destroys(cq);
	if (soft.users) return;
	await_acknowledgements(Kind::cq, cq, soft.delivered.completions + soft.delivered.asynchronous,
		cq->comp_events_completed + cq->async_events_completed);
}
void Checks<destroy_cq>::after(int error, ibv_cq* cq) { destroyed(error, Kind::cq, cq); }

void Checks<get_cq_event>::before(ibv_comp_channel* channel, ibv_cq**, void**) {
	tell([&](rules::Book& book) {
		book.waits_for_event(
			channel,
			[](rules::Handle cq) { return SoftCq::of(static_cast<ibv_cq*>(const_cast<void*>(cq))).queue->taken(); },
			site_here(), monotonic_now());
	});
}
void Checks<get_cq_event>::after(int result, ibv_comp_channel* channel, ibv_cq** cq, void**) {
	tell([&](rules::Book& book) { book.event_fetched(channel, result == 0 ? *cq : nullptr); });
}
void Checks<ack_cq_events>::before(ibv_cq* cq, unsigned count) {
	tell([&](rules::Book& book) { book.acknowledges(cq, count, site_here()); });
}

void Checks<create_qp>::after(ibv_qp* qp, ibv_pd*, ibv_qp_init_attr* init) {
	if (qp) made_qp(qp, *init);
	else refused_qp(init->cap);
}
void Checks<create_qp_ex>::after(ibv_qp* qp, ibv_context*, ibv_qp_init_attr_ex* init) {
	if (qp) made_qp(qp, SoftQp::of(qp).init);
	else if (errno == EOPNOTSUPP) tell([](rules::Book& book) { book.extended_queue_pair_refused(site_here()); });
	else refused_qp(init->cap);
}
void Checks<modify_qp>::after(int error, ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
	tell([&](rules::Book& book) {
		if (!error) return book.changed(qp, facts_of(qp, *attributes, mask), site_here());
		if (mask & IBV_QP_AV && !attributes->ah_attr.is_global) book.change_without_grh(qp, site_here());
		if (mask & IBV_QP_PORT) check_port(book, attributes->port_num);
		if (mask & IBV_QP_AV) check_port(book, attributes->ah_attr.port_num);
		if (error == EINVAL && SoftQp::of(qp).qp && needs_sqd(*SoftQp::of(qp).qp, *attributes, mask))
			book.change_needs_sqd(qp, site_here());
	});
}
void Checks<destroy_qp>::before(ibv_qp* qp) {
	destroys(qp);
	const SoftQp& soft = SoftQp::of(qp);
	if (!soft.qp || is_multicast_member(soft)) return;  // destroyed before, or about to be refused
	const bool taken = soft.engine->control([&](adapter::ChannelAdapter&) { return soft.qp->receive != nullptr; });
	tell([&](rules::Book& book) { book.destroys_queue_pair(qp, qp->srq && taken, site_here()); });
	await_acknowledgements(Kind::qp, qp, soft.delivered.asynchronous, qp->events_completed);
}
void Checks<destroy_qp>::after(int error, ibv_qp* qp) { destroyed(error, Kind::qp, qp); }

void Checks<create_srq>::after(ibv_srq* srq, ibv_pd* pd, ibv_srq_init_attr*) {
	if (srq) made(Kind::srq, srq, {pd});
}
void Checks<create_srq_ex>::after(ibv_srq* srq, ibv_context*, ibv_srq_init_attr_ex*) {
	if (srq) made(Kind::srq, srq, {srq->pd});
}
void Checks<destroy_srq>::before(ibv_srq* srq) {
	destroys(srq);
	await_acknowledgements(Kind::srq, srq, SoftSrq::of(srq).delivered.asynchronous, srq->events_completed);
}
void Checks<destroy_srq>::after(int error, ibv_srq* srq) { destroyed(error, Kind::srq, srq); }

void Checks<create_ah>::after(ibv_ah* ah, ibv_pd* pd, ibv_ah_attr* attributes) {
	if (ah) made(Kind::ah, ah, {pd});
	else tell([&](rules::Book& book) { check_port(book, attributes->port_num); });
}
void Checks<destroy_ah>::before(ibv_ah* ah) {
	destroys(ah);
	tell([&](rules::Book& book) { book.address_handle_destroyed(ah, site_here()); });
}
void Checks<destroy_ah>::after(int error, ibv_ah* ah) { destroyed(error, Kind::ah, ah); }

}  // namespace verbena::verbs
