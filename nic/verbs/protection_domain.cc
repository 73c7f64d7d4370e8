// SPDX-License-Identifier: Apache-2.0
// Protection domains, thread domains, and parent domains, which combine one of each.
#include <atomic>
#include <cerrno>
#include <new>

#include "base/log.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

ibv_pd* alloc_pd(ibv_context* context) {
	static std::atomic<std::uint32_t> next{1};
	auto* pd = new (std::nothrow) SoftPd;
	if (!pd) return log::refuse(ENOMEM, "ibv_alloc_pd: no memory"), nullptr;
	pd->public_pd.context = context;
	pd->number = pd->public_pd.handle = next++;
	++SoftContext::of(context).users;
	return &pd->public_pd;
}

int dealloc_pd(ibv_pd* public_pd) {
	SoftPd& pd = SoftPd::of(public_pd);
	if (pd.users) return log::refuse(EBUSY, "ibv_dealloc_pd: %d objects use the domain", static_cast<int>(pd.users));
	if (pd.parent) --pd.parent->users;
	if (pd.thread) --pd.thread->users;
	--SoftContext::of(public_pd->context).users;
	dispose(pd);
	return 0;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init) {
	if (init->comp_mask)
		return log::refuse(EINVAL, "ibv_alloc_td: comp_mask 0x%x has unknown bits", init->comp_mask), nullptr;
	auto* td = new (std::nothrow) SoftTd;
	if (!td) return log::refuse(ENOMEM, "ibv_alloc_td: no memory"), nullptr;
	td->public_td.context = context;
	return &td->public_td;
}

int dealloc_td(ibv_td* td) {
	if (SoftTd::of(td).users) return log::refuse(EBUSY, "ibv_dealloc_td: a parent domain uses the thread domain");
	delete &SoftTd::of(td);
	return 0;
}

// A parent domain has the number of its protection domain, so keys of one are valid in the other. A
// thread domain promises that one thread at a time uses its objects, which allows a provider to
// omit locks; ours are cheap without contention, and stay. Allocators provide memory that a
// provider shares with its hardware; we have no such memory and never call them. The third bit, of
// rdma-core 65, allows memory that a confidential guest shares with its devices; a provider whose
// device does not ask for such memory ignores it.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init) {
	constexpr std::uint32_t allow_unprotected_memory = 1 << 2;
	constexpr std::uint32_t known =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | allow_unprotected_memory;
	if (!init->pd || init->pd->context != context || (init->td && init->td->context != context))
		return log::refuse(EINVAL, "ibv_alloc_parent_domain: pd is NULL, or pd or td of another device"), nullptr;
	if (init->comp_mask & ~known)
		return log::refuse(EOPNOTSUPP, "ibv_alloc_parent_domain: comp_mask bits 0x%x are not supported",
				   init->comp_mask & ~known),
			   nullptr;
	auto* pd = new (std::nothrow) SoftPd;
	if (!pd) return log::refuse(ENOMEM, "ibv_alloc_parent_domain: no memory"), nullptr;
	pd->parent = &SoftPd::of(init->pd);
	pd->thread = init->td ? &SoftTd::of(init->td) : nullptr;
	pd->public_pd.context = context;
	pd->number = pd->public_pd.handle = pd->parent->number;
	++pd->parent->users;
	if (pd->thread) ++pd->thread->users;
	++SoftContext::of(context).users;
	return &pd->public_pd;
}

}  // namespace verbena::verbs
