// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/call_site.h"

#include <dlfcn.h>
#include <pthread.h>
#include <unwind.h>

#include <algorithm>

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
	std::array<std::uintptr_t, Stack::depth_max> places{};  // where the return addresses lie
	bool inside = true;  // no frame of the program was met yet
};

_Unwind_Reason_Code add_frame(_Unwind_Context* context, void* data) {
	Walk& walk = *static_cast<Walk*>(data);
	const std::uintptr_t address = _Unwind_GetIP(context);
	if (address == 0) return _URC_END_OF_STACK;
	if (walk.inside && is_ours(address)) return _URC_NO_REASON;
	walk.inside = false;
	// The stack pointer of this frame after the call, which has pushed the return address below.
	walk.places[walk.stack.depth] = _Unwind_GetCFA(context) - sizeof address;
	walk.stack.frames[walk.stack.depth++] = address;
	return walk.stack.depth == Stack::depth_max ? _URC_END_OF_STACK : _URC_NO_REASON;
}

std::uint64_t hash_of(std::span<const std::uintptr_t> frames) {
	std::uint64_t hash = 0x9e3779b97f4a7c15;
	for (const std::uintptr_t frame : frames) hash = (hash ^ frame) * 0xff51afd7ed558ccd;
	return hash ^ hash >> 32;
}

Walk walk_here() {
	Walk walk;
	_Unwind_Backtrace(add_frame, &walk);
	return walk;
}

// The end of the calling thread's stack; 0 for a frame that is not on it but, say, on that of a
// coroutine.
std::uintptr_t stack_end_above(std::uintptr_t frame) {
	const auto [begin, end] = stack_of_thread();
	return frame >= begin && frame < end ? end : 0;
}

}  // namespace

std::pair<std::uintptr_t, std::uintptr_t> stack_of_thread() {
	thread_local std::pair<std::uintptr_t, std::uintptr_t> known{};
	if (known.second != 0) return known;
	pthread_attr_t attributes;
	void* begin = nullptr;
	std::size_t size = 0;
	// After a failure the next call asks again.
	if (pthread_getattr_np(pthread_self(), &attributes) != 0) return {};
	pthread_attr_getstack(&attributes, &begin, &size);
	pthread_attr_destroy(&attributes);
	return known = {reinterpret_cast<std::uintptr_t>(begin), reinterpret_cast<std::uintptr_t>(begin) + size};
}

Stack stack_here() { return walk_here().stack; }

// The memory belongs to functions that the address sanitizer knows, or to other threads' past.
[[gnu::no_sanitize("address", "thread")]] bool Sites::is_here(
	const Variant& variant, std::uintptr_t frame, std::uintptr_t stack_end) {
	for (std::size_t i = 0; i < variant.count; ++i) {
		const Link& link = variant.links[i];
		const std::uintptr_t place = frame + link.distance;
		if (place + sizeof place > stack_end) return false;
		if (*reinterpret_cast<const std::uintptr_t*>(place) != link.return_address) return false;
	}
	return true;
}

Site Sites::add(std::uint64_t key, const Stack& stack) {
	const std::lock_guard lock(mutex_);
	const auto [found, fresh] = known_.try_emplace(key, static_cast<Site>(stacks_.size()));
	if (fresh) stacks_.push_back(stack);
	return found->second;
}

Site Sites::of_return(std::uintptr_t return_address, std::uintptr_t frame) {
	const std::uintptr_t stack_end = stack_end_above(frame);
	{
		const std::lock_guard lock(mutex_);
		const std::vector<Variant>& variants = variants_[return_address];
		for (const Variant& variant : variants)
			if (is_here(variant, frame, stack_end)) return variant.site;
		if (variants.size() >= variants_max) return variants.front().site;
	}
	const Walk walk = walk_here();
	Variant variant{.site = add(hash_of(walk.stack.all()), walk.stack)};
	while (variant.count < std::min(walk.stack.depth, links_max)) {
		const std::size_t i = variant.count++;
		variant.links[i] = {walk.places[i] - frame, walk.stack.frames[i]};
		if (walk.places[i] >= frame && is_here(variant, frame, stack_end)) continue;
		variant.count = i;
		break;
	}
	if (variant.count == 0) return variant.site;
	const std::lock_guard lock(mutex_);
	variants_[return_address].push_back(variant);
	return variant.site;
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
