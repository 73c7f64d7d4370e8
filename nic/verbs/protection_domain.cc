// Protection domains, thread domains, and parent domains, which combine one of each.
#include <atomic>
#include <cerrno>
#include <new>

#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

ibv_pd* alloc_pd(ibv_context* context) {
	static std::atomic<std::uint32_t> next{1};
	auto* pd = new (std::nothrow) SoftPd;
	if (!pd) return errno = ENOMEM, nullptr;
	pd->public_pd.context = context;
	pd->number = pd->public_pd.handle = next++;
	++SoftContext::of(context).users;
	return &pd->public_pd;
}

int dealloc_pd(ibv_pd* public_pd) {
	SoftPd& pd = SoftPd::of(public_pd);
	if (pd.users) return errno = EBUSY;
	if (pd.parent) --pd.parent->users;
	if (pd.thread) --pd.thread->users;
	--SoftContext::of(public_pd->context).users;
	delete &pd;
	return 0;
}

ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* init) {
	if (init->comp_mask) return errno = EINVAL, nullptr;
	auto* td = new (std::nothrow) SoftTd;
	if (!td) return errno = ENOMEM, nullptr;
	td->public_td.context = context;
	return &td->public_td;
}

int dealloc_td(ibv_td* td) {
	if (SoftTd::of(td).users) return errno = EBUSY;
	delete &SoftTd::of(td);
	return 0;
}

// A parent domain has the number of its protection domain, so keys of one are valid in the other. A
// thread domain promises that one thread at a time uses its objects, which allows a provider to
// omit locks; ours are cheap without contention, and stay. Allocators provide memory that a
// provider shares with its hardware; we have no such memory and never call them.
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* init) {
	constexpr std::uint32_t known = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	if (!init->pd || init->pd->context != context || (init->td && init->td->context != context) ||
		(init->comp_mask & ~known))
		return errno = EINVAL, nullptr;
	auto* pd = new (std::nothrow) SoftPd;
	if (!pd) return errno = ENOMEM, nullptr;
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
