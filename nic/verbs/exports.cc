// SPDX-License-Identifier: Apache-2.0
// The exported verbs that our NIC implements. Each function only decides whose the argument is: our
// objects go to provider.h, all others to the real library. exports_devices.cc exports the verbs
// for devices and for fork, unsupported.cc those that our NIC lacks.
//
// Every public function that takes a device, a context or an object must be exported in one of the
// three. A call of a missing one would reach the real libibverbs, which takes our context for its
// own and crashes. tests/abi checks that none is missing.
#include "nic/verbs/boundary.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/real_library.h"

namespace ours = verbena::verbs;
using ours::guarded;
using ours::is_ours;
using ours::real;
using ours::Reports;

namespace {

// The context of the object that an event names. NULL for events of a port or a device, whose
// acknowledgement has no effect.
const ibv_context* owner(const ibv_async_event& event) {
	switch (event.event_type) {
		case IBV_EVENT_CQ_ERR: return event.element.cq->context;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_COMM_EST:
		case IBV_EVENT_SQ_DRAINED:
		case IBV_EVENT_PATH_MIG:
		case IBV_EVENT_PATH_MIG_ERR:
		case IBV_EVENT_QP_LAST_WQE_REACHED: return event.element.qp->context;
		case IBV_EVENT_SRQ_ERR:
		case IBV_EVENT_SRQ_LIMIT_REACHED: return event.element.srq->context;
		case IBV_EVENT_WQ_FATAL: return event.element.wq->context;
		default: return nullptr;
	}
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

// ---- Queries

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
	return is_ours(context) ? guarded<ours::query_device>(context, attributes)
							: real().ibv_query_device(context, attributes);
}

int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attributes) {
	return is_ours(context) ? guarded<ours::query_port>(context, port, attributes)
							: real().ibv_query_port(context, port, attributes);
}

int ibv_query_gid(ibv_context* context, uint8_t port, int index, ibv_gid* gid) {
	return is_ours(context) ? guarded<ours::query_gid, Reports::minus_one>(context, port, index, gid)
							: real().ibv_query_gid(context, port, index, gid);
}

int _ibv_query_gid_ex(
	ibv_context* context, uint32_t port, uint32_t index, ibv_gid_entry* entry, uint32_t flags, size_t entry_size) {
	return is_ours(context) ? guarded<ours::query_gid_ex>(context, port, index, entry, flags, entry_size)
							: real()._ibv_query_gid_ex(context, port, index, entry, flags, entry_size);
}

ssize_t _ibv_query_gid_table(
	ibv_context* context, ibv_gid_entry* entries, size_t entry_count_max, uint32_t flags, size_t entry_size) {
	return is_ours(context)
		? guarded<ours::query_gid_table, Reports::negative_errno>(context, entries, entry_count_max, flags, entry_size)
		: real()._ibv_query_gid_table(context, entries, entry_count_max, flags, entry_size);
}

int ibv_query_gid_type(ibv_context* context, uint8_t port, unsigned int index, unsigned int* type) {
	return is_ours(context) ? guarded<ours::query_gid_type, Reports::minus_one>(context, port, index, type)
							: real().ibv_query_gid_type(context, port, index, type);
}

int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
	return is_ours(context) ? guarded<ours::query_pkey, Reports::minus_one>(context, port, index, pkey)
							: real().ibv_query_pkey(context, port, index, pkey);
}

int ibv_get_pkey_index(ibv_context* context, uint8_t port, __be16 pkey) {
	return is_ours(context) ? guarded<ours::get_pkey_index, Reports::minus_one>(context, port, pkey)
							: real().ibv_get_pkey_index(context, port, pkey);
}

// ---- Protection domains and memory

ibv_pd* ibv_alloc_pd(ibv_context* context) {
	return is_ours(context) ? guarded<ours::alloc_pd>(context) : real().ibv_alloc_pd(context);
}

int ibv_dealloc_pd(ibv_pd* pd) {
	return is_ours(pd->context) ? guarded<ours::dealloc_pd>(pd) : real().ibv_dealloc_pd(pd);
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
	return is_ours(pd->context) ? guarded<ours::reg_mr>(pd, address, length, access)
								: real().ibv_reg_mr(pd, address, length, access);
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
	return is_ours(pd->context) ? guarded<ours::reg_mr_iova>(pd, address, length, iova, access)
								: real().ibv_reg_mr_iova(pd, address, length, iova, access);
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned int access) {
	return is_ours(pd->context) ? guarded<ours::reg_mr_iova2>(pd, address, length, iova, access)
								: real().ibv_reg_mr_iova2(pd, address, length, iova, access);
}

int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, size_t length, int access) {
	return is_ours(mr->context) ? guarded<ours::rereg_mr>(mr, flags, pd, address, length, access)
								: real().ibv_rereg_mr(mr, flags, pd, address, length, access);
}

int ibv_dereg_mr(ibv_mr* mr) { return is_ours(mr->context) ? guarded<ours::dereg_mr>(mr) : real().ibv_dereg_mr(mr); }

// ---- Completions

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
	return is_ours(context) ? guarded<ours::create_comp_channel>(context) : real().ibv_create_comp_channel(context);
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
	return is_ours(channel->context) ? guarded<ours::destroy_comp_channel>(channel)
									 : real().ibv_destroy_comp_channel(channel);
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector) {
	return is_ours(context) ? guarded<ours::create_cq>(context, cqe, cq_context, channel, comp_vector)
							: real().ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
	return is_ours(cq->context) ? guarded<ours::resize_cq>(cq, cqe) : real().ibv_resize_cq(cq, cqe);
}

int ibv_destroy_cq(ibv_cq* cq) {
	return is_ours(cq->context) ? guarded<ours::destroy_cq>(cq) : real().ibv_destroy_cq(cq);
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
	return is_ours(channel->context) ? guarded<ours::get_cq_event, Reports::minus_one>(channel, cq, cq_context)
									 : real().ibv_get_cq_event(channel, cq, cq_context);
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
	if (!is_ours(cq->context)) return real().ibv_ack_cq_events(cq, count);
	// Once for each event: it cannot throw, so it needs no boundary.
	ours::checked() ? guarded<ours::ack_cq_events>(cq, count) : ours::ack_cq_events(cq, count);
}

// ---- Queue pairs

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes) {
	return is_ours(pd->context) ? guarded<ours::create_qp>(pd, attributes) : real().ibv_create_qp(pd, attributes);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
	return is_ours(qp->context) ? guarded<ours::modify_qp>(qp, attributes, mask)
								: real().ibv_modify_qp(qp, attributes, mask);
}

int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init_attributes) {
	return is_ours(qp->context) ? guarded<ours::query_qp>(qp, attributes, mask, init_attributes)
								: real().ibv_query_qp(qp, attributes, mask, init_attributes);
}

int ibv_destroy_qp(ibv_qp* qp) {
	return is_ours(qp->context) ? guarded<ours::destroy_qp>(qp) : real().ibv_destroy_qp(qp);
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
	return is_ours(qp->context) ? ours::qp_to_qp_ex(qp) : real().ibv_qp_to_qp_ex(qp);
}

int ibv_query_qp_data_in_order(ibv_qp* qp, ibv_wr_opcode operation, uint32_t flags) {
	return is_ours(qp->context) ? guarded<ours::query_qp_data_in_order>(qp, operation, flags)
								: real().ibv_query_qp_data_in_order(qp, operation, flags);
}

int ibv_query_ece(ibv_qp* qp, ibv_ece* ece) {
	return is_ours(qp->context) ? guarded<ours::query_ece>(qp, ece) : real().ibv_query_ece(qp, ece);
}

int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
	return is_ours(qp->context) ? guarded<ours::set_ece>(qp, ece) : real().ibv_set_ece(qp, ece);
}

int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
	return is_ours(qp->context) ? guarded<ours::attach_mcast>(qp, gid, lid) : real().ibv_attach_mcast(qp, gid, lid);
}

int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t lid) {
	return is_ours(qp->context) ? guarded<ours::detach_mcast>(qp, gid, lid) : real().ibv_detach_mcast(qp, gid, lid);
}

// ---- Shared receive queues

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes) {
	return is_ours(pd->context) ? guarded<ours::create_srq>(pd, attributes) : real().ibv_create_srq(pd, attributes);
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask) {
	return is_ours(srq->context) ? guarded<ours::modify_srq>(srq, attributes, mask)
								 : real().ibv_modify_srq(srq, attributes, mask);
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attributes) {
	return is_ours(srq->context) ? guarded<ours::query_srq>(srq, attributes) : real().ibv_query_srq(srq, attributes);
}

int ibv_destroy_srq(ibv_srq* srq) {
	return is_ours(srq->context) ? guarded<ours::destroy_srq>(srq) : real().ibv_destroy_srq(srq);
}

// ---- Address handles

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
	return is_ours(pd->context) ? guarded<ours::create_ah>(pd, attributes) : real().ibv_create_ah(pd, attributes);
}

int ibv_init_ah_from_wc(ibv_context* context, uint8_t port, ibv_wc* wc, ibv_grh* grh, ibv_ah_attr* attributes) {
	return is_ours(context) ? guarded<ours::init_ah_from_wc, Reports::minus_one>(context, port, wc, grh, attributes)
							: real().ibv_init_ah_from_wc(context, port, wc, grh, attributes);
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, uint8_t port) {
	return is_ours(pd->context) ? guarded<ours::create_ah_from_wc>(pd, wc, grh, port)
								: real().ibv_create_ah_from_wc(pd, wc, grh, port);
}

int ibv_destroy_ah(ibv_ah* ah) {
	return is_ours(ah->context) ? guarded<ours::destroy_ah>(ah) : real().ibv_destroy_ah(ah);
}

// ---- Asynchronous events

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
	return is_ours(context) ? guarded<ours::get_async_event, Reports::minus_one>(context, event)
							: real().ibv_get_async_event(context, event);
}

void ibv_ack_async_event(ibv_async_event* event) {
	const ibv_context* context = owner(*event);
	if (!context) return;
	is_ours(context) ? ours::ack_async_event(event) : real().ibv_ack_async_event(event);
}

#pragma GCC visibility pop
}  // extern "C"
