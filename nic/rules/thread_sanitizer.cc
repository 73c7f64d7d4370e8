// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/thread_sanitizer.h"

#include <dlfcn.h>

#include <optional>

namespace verbena::rules {
namespace {

template <class Function> bool find(Function& function, const char* name) {
	function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
	return function != nullptr;
}

std::optional<ThreadSanitizer> search() {
#ifdef __SANITIZE_THREAD__
	return std::nullopt;  // the sanitizer sees this library as it is
#endif
	ThreadSanitizer found{};
	const bool complete = find(found.acquire, "__tsan_acquire") && find(found.release, "__tsan_release") &&
		find(found.create_fiber, "__tsan_create_fiber") && find(found.current_fiber, "__tsan_get_current_fiber") &&
		find(found.switch_to_fiber, "__tsan_switch_to_fiber") && find(found.set_fiber_name, "__tsan_set_fiber_name") &&
		find(found.enter, "__tsan_func_entry") && find(found.leave, "__tsan_func_exit") &&
		find(found.read_range, "__tsan_read_range_pc") && find(found.write_range, "__tsan_write_range_pc") &&
		find(found.ignore_locks, "AnnotateIgnoreSyncBegin") && find(found.respect_locks, "AnnotateIgnoreSyncEnd");
	return complete ? std::optional(found) : std::nullopt;
}

}  // namespace

const ThreadSanitizer* ThreadSanitizer::found() {
	static const std::optional<ThreadSanitizer> functions = search();
	return functions ? &*functions : nullptr;
}

}  // namespace verbena::rules
