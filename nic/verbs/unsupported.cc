// SPDX-License-Identifier: Apache-2.0
// The exported verbs that our NIC lacks: for our objects they fail with EOPNOTSUPP, all others go
// to the real library. They are exported so that our contexts never reach the real library, not
// even by functions that are newer than the installed one (newer_verbs.h).
#include <cerrno>

#include "base/log.h"
#include "nic/presence/device_descriptor.h"
#include "nic/verbs/newer_verbs.h"
#include "nic/verbs/provider.h"
#include "nic/verbs/real_library.h"

using verbena::verbs::InsideReal;
using verbena::verbs::is_ours;
using verbena::verbs::real;

namespace {

template <typename Result> Result not_supported(Result failure, const char* verb = __builtin_FUNCTION()) {
	verbena::log::refuse(EOPNOTSUPP, "%s: this NIC does not support it", verb);
	return failure;
}

// The context of an object whose struct the installed verbs.h does not define: its first member.
template <typename Object> const ibv_context* context_of(const Object* object) {
	return *reinterpret_cast<ibv_context* const*>(object);
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

// ---- Objects of another process. The real library searches its device list for the descriptor,
// so that list must not contain ours.

ibv_context* ibv_import_device(int cmd_fd) {
	if (verbena::presence::device_of_descriptor(cmd_fd)) return not_supported<ibv_context*>(nullptr);
	const InsideReal guard;
	return real().ibv_import_device(cmd_fd);
}

ibv_pd* ibv_import_pd(ibv_context* context, uint32_t handle) {
	return is_ours(context) ? not_supported<ibv_pd*>(nullptr) : real().ibv_import_pd(context, handle);
}

void ibv_unimport_pd(ibv_pd* pd) {
	if (!is_ours(pd->context)) real().ibv_unimport_pd(pd);
}

ibv_mr* ibv_import_mr(ibv_pd* pd, uint32_t handle) {
	return is_ours(pd->context) ? not_supported<ibv_mr*>(nullptr) : real().ibv_import_mr(pd, handle);
}

void ibv_unimport_mr(ibv_mr* mr) {
	if (!is_ours(mr->context)) real().ibv_unimport_mr(mr);
}

ibv_dm* ibv_import_dm(ibv_context* context, uint32_t handle) {
	return is_ours(context) ? not_supported<ibv_dm*>(nullptr) : real().ibv_import_dm(context, handle);
}

void ibv_unimport_dm(ibv_dm* dm) {
	if (!is_ours(dm->context)) real().ibv_unimport_dm(dm);
}

// ---- Other kinds of memory

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
	return is_ours(pd->context) ? not_supported<ibv_mr*>(nullptr)
								: real().ibv_reg_dmabuf_mr(pd, offset, length, iova, fd, access);
}

ibv_dmah* ibv_alloc_dmah(ibv_context* context, ibv_dmah_init_attr* attributes) {
	return is_ours(context) ? not_supported<ibv_dmah*>(nullptr) : real().ibv_alloc_dmah(context, attributes);
}

int ibv_dealloc_dmah(ibv_dmah* dmah) {
	return is_ours(context_of(dmah)) ? not_supported(EOPNOTSUPP) : real().ibv_dealloc_dmah(dmah);
}

int ibv_dm_export_dmabuf_fd(ibv_dm* dm) {
	return is_ours(dm->context) ? not_supported(-1) : real().ibv_dm_export_dmabuf_fd(dm);
}

// ---- Completion counters

int _ibv_query_comp_cntr_caps(ibv_context* context, ibv_comp_cntr_caps* caps, size_t caps_size) {
	return is_ours(context) ? not_supported(EOPNOTSUPP) : real()._ibv_query_comp_cntr_caps(context, caps, caps_size);
}

ibv_comp_cntr* ibv_create_comp_cntr(ibv_context* context, ibv_comp_cntr_init_attr* attributes) {
	return is_ours(context) ? not_supported<ibv_comp_cntr*>(nullptr) : real().ibv_create_comp_cntr(context, attributes);
}

int ibv_destroy_comp_cntr(ibv_comp_cntr* counter) {
	return is_ours(context_of(counter)) ? not_supported(EOPNOTSUPP) : real().ibv_destroy_comp_cntr(counter);
}

int ibv_set_comp_cntr(ibv_comp_cntr* counter, uint64_t value) {
	return is_ours(context_of(counter)) ? not_supported(EOPNOTSUPP) : real().ibv_set_comp_cntr(counter, value);
}

int ibv_set_err_comp_cntr(ibv_comp_cntr* counter, uint64_t value) {
	return is_ours(context_of(counter)) ? not_supported(EOPNOTSUPP) : real().ibv_set_err_comp_cntr(counter, value);
}

int ibv_inc_comp_cntr(ibv_comp_cntr* counter, uint64_t amount) {
	return is_ours(context_of(counter)) ? not_supported(EOPNOTSUPP) : real().ibv_inc_comp_cntr(counter, amount);
}

int ibv_inc_err_comp_cntr(ibv_comp_cntr* counter, uint64_t amount) {
	return is_ours(context_of(counter)) ? not_supported(EOPNOTSUPP) : real().ibv_inc_err_comp_cntr(counter, amount);
}

int ibv_read_comp_cntr(ibv_comp_cntr* counter, uint64_t* value) {
	return is_ours(context_of(counter)) ? not_supported(EOPNOTSUPP) : real().ibv_read_comp_cntr(counter, value);
}

int ibv_read_err_comp_cntr(ibv_comp_cntr* counter, uint64_t* value) {
	return is_ours(context_of(counter)) ? not_supported(EOPNOTSUPP) : real().ibv_read_err_comp_cntr(counter, value);
}

int ibv_qp_attach_comp_cntr(ibv_qp* qp, ibv_comp_cntr* counter, ibv_qp_attach_comp_cntr_attr* attributes) {
	return is_ours(qp->context) ? not_supported(EOPNOTSUPP) : real().ibv_qp_attach_comp_cntr(qp, counter, attributes);
}

// ---- Queries

int ibv_query_port_speed(ibv_context* context, uint32_t port, uint64_t* speed) {
	return is_ours(context) ? not_supported(EOPNOTSUPP) : real().ibv_query_port_speed(context, port, speed);
}

int ibv_resolve_eth_l2_from_gid(
	ibv_context* context, ibv_ah_attr* attributes, uint8_t mac[ETHERNET_LL_SIZE], uint16_t* vlan) {
	return is_ours(context) ? not_supported(-EOPNOTSUPP)
							: real().ibv_resolve_eth_l2_from_gid(context, attributes, mac, vlan);
}

#pragma GCC visibility pop
}  // extern "C"
