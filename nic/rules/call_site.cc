// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/call_site.h"

#include <dlfcn.h>
#include <unwind.h>

namespace verbena::rules {
namespace {

const void* own_base() {
	static const void* const base = [] {
		Dl_info info{};
		return dladdr(reinterpret_cast<const void*>(&stack_here), &info) ? info.dli_fbase : nullptr;
	}();
	return base;
}

bool is_ours(std::uintptr_t address) {
	Dl_info info{};
	return dladdr(reinterpret_cast<const void*>(address), &info) && info.dli_fbase == own_base();
}

struct Walk {
	Stack stack;
	bool inside = true;  // no frame of the program was met yet
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
	Walk& walk = *static_cast<Walk*>(data);
	const std::uintptr_t address = _Unwind_GetIP(context);
	if (address == 0) return _URC_END_OF_STACK;
	if (walk.inside && is_ours(address)) return _URC_NO_REASON;
	walk.inside = false;
	walk.stack.frames[walk.stack.depth++] = address;
	return walk.stack.depth == Stack::depth_max ? _URC_END_OF_STACK : _URC_NO_REASON;
}

std::uint64_t hash_of(std::span<const std::uintptr_t> frames) {
	std::uint64_t hash = 0x9e3779b97f4a7c15;
	for (const std::uintptr_t frame : frames) hash = (hash ^ frame) * 0xff51afd7ed558ccd;
	return hash ^ hash >> 32;
}

}  // namespace

Stack stack_here() {
	Walk walk;
	_Unwind_Backtrace(add_frame, &walk);
	return walk.stack;
}

Site Sites::add(std::uint64_t key, const Stack& stack) {
	const std::lock_guard lock(mutex_);
	const auto [found, fresh] = known_.try_emplace(key, static_cast<Site>(stacks_.size()));
	if (fresh) stacks_.push_back(stack);
	return found->second;
}

Site Sites::of_return(std::uintptr_t return_address) {
	{
		const std::lock_guard lock(mutex_);
		if (const auto found = known_.find(return_address); found != known_.end()) return found->second;
	}
	return add(return_address, stack_here());
}

Site Sites::of_instruction(std::uintptr_t next) {
	if (is_ours(next)) return 0;
	Stack stack;
	stack.frames[stack.depth++] = next;
	return add(next, stack);
}

Site Sites::here() {
	const Stack stack = stack_here();
	return add(hash_of(stack.all()), stack);
}

Stack Sites::stack_of(Site site) const {
	const std::lock_guard lock(mutex_);
	return site < stacks_.size() ? stacks_[site] : Stack{};
}

}  // namespace verbena::rules
