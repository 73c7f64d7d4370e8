// SPDX-License-Identifier: Apache-2.0
// The control verbs of a process that is checked: each calls before() and after(), which report to
// the book (nic/rules).
//
// `Checks<verb>` is empty for a verb that no rule is about.
//
// Threads: any.
// Invariants: nothing lives across the verb, because a thread may leave one that sleeps
//   (nic/engine/waiting.h).
#pragma once

#include <infiniband/verbs.h>

#include "nic/verbs/checked.h"
#include "nic/verbs/objects.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

// An object that was destroyed before.
bool is_ghost(rules::Handle, const char* verb);

template <auto verb> struct Checks {
	template <class... Arguments> static bool refuses(Arguments...) { return false; }
	template <class... Arguments> static void before(Arguments...) {}
	template <class... Arguments> static void after(Arguments...) {}
};

// The parts that a verb has no rule for.
struct Unchecked {
	template <class... Arguments> static bool refuses(Arguments...) { return false; }
	template <class... Arguments> static void before(Arguments...) {}
	template <class... Arguments> static void after(Arguments...) {}
};

// Refuses an object that was destroyed before, by EINVAL.
struct RefusesGhosts : Unchecked {
	template <class Object, class... Others> static bool refuses(const char* verb, Object* object, Others...) {
		return is_ghost(object, verb);
	}
};

// The rdma_cm id that was connected with this queue pair is about to be destroyed.
void note_id_end(std::uint32_t qpn) noexcept;

template <> struct Checks<query_device> : Unchecked {
	static void after(int error, ibv_context*, ibv_device_attr*);
};
template <> struct Checks<query_device_ex> : Unchecked {
	static void after(int error, ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex*, std::size_t size);
};
template <> struct Checks<alloc_pd> : Unchecked {
	static void after(ibv_pd*, ibv_context*);
};
template <> struct Checks<alloc_parent_domain> : Unchecked {
	static void after(ibv_pd*, ibv_context*, ibv_parent_domain_init_attr*);
};
template <> struct Checks<dealloc_pd> : RefusesGhosts {
	static void before(ibv_pd*);
	static void after(int error, ibv_pd*);
};
template <> struct Checks<reg_mr> : Unchecked {
	static void after(ibv_mr*, ibv_pd*, void*, std::size_t, int access);
};
template <> struct Checks<reg_mr_iova> : Unchecked {
	static void after(ibv_mr*, ibv_pd*, void*, std::size_t, std::uint64_t, int access);
};
template <> struct Checks<reg_mr_iova2> : Unchecked {
	static void after(ibv_mr*, ibv_pd*, void*, std::size_t, std::uint64_t, unsigned access);
};
template <> struct Checks<rereg_mr> : RefusesGhosts {
	static void before(ibv_mr*, int flags, ibv_pd*, void*, std::size_t, int);
	static void after(int error, ibv_mr*, int flags, ibv_pd*, void*, std::size_t, int);
};
template <> struct Checks<dereg_mr> : RefusesGhosts {
	static void before(ibv_mr*);
	static void after(int error, ibv_mr*);
};
template <> struct Checks<create_comp_channel> : Unchecked {
	static void after(ibv_comp_channel*, ibv_context*);
};
template <> struct Checks<destroy_comp_channel> : RefusesGhosts {
	static void before(ibv_comp_channel*);
	static void after(int error, ibv_comp_channel*);
};
template <> struct Checks<create_cq> : Unchecked {
	static void after(ibv_cq*, ibv_context*, int, void*, ibv_comp_channel*, int);
};
template <> struct Checks<create_cq_ex> : Unchecked {
	static void after(ibv_cq_ex*, ibv_context*, ibv_cq_init_attr_ex*);
};
template <> struct Checks<destroy_cq> : RefusesGhosts {
	static void before(ibv_cq*);
	static void after(int error, ibv_cq*);
};
template <> struct Checks<get_cq_event> : Unchecked {
	static void before(ibv_comp_channel*, ibv_cq**, void**);
	static void after(int result, ibv_comp_channel*, ibv_cq**, void**);
};
template <> struct Checks<ack_cq_events> : Unchecked {
	static void before(ibv_cq*, unsigned count);
};
template <> struct Checks<create_qp> : Unchecked {
	static void after(ibv_qp*, ibv_pd*, ibv_qp_init_attr*);
};
template <> struct Checks<create_qp_ex> : Unchecked {
	static void after(ibv_qp*, ibv_context*, ibv_qp_init_attr_ex*);
};
template <> struct Checks<modify_qp> : RefusesGhosts {
	static void after(int error, ibv_qp*, ibv_qp_attr*, int mask);
};
template <> struct Checks<destroy_qp> : RefusesGhosts {
	static void before(ibv_qp*);
	static void after(int error, ibv_qp*);
};
template <> struct Checks<create_srq> : Unchecked {
	static void after(ibv_srq*, ibv_pd*, ibv_srq_init_attr*);
};
template <> struct Checks<create_srq_ex> : Unchecked {
	static void after(ibv_srq*, ibv_context*, ibv_srq_init_attr_ex*);
};
template <> struct Checks<destroy_srq> : RefusesGhosts {
	static void before(ibv_srq*);
	static void after(int error, ibv_srq*);
};
template <> struct Checks<create_ah> : Unchecked {
	static void after(ibv_ah*, ibv_pd*, ibv_ah_attr*);
};
template <> struct Checks<destroy_ah> : RefusesGhosts {
	static void before(ibv_ah*);
	static void after(int error, ibv_ah*);
};

}  // namespace verbena::verbs
