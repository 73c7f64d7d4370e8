// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/sanitizer.h"

#include <dlfcn.h>

namespace verbena::rules {

using queues::Segment;

Sanitizer::Sanitizer()
	: poison_(reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "__asan_poison_memory_region"))),
	  unpoison_(reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "__asan_unpoison_memory_region"))) {}

void Sanitizer::poison(std::span<const Segment> segments) const {
	if (!poison_ || !unpoison_) return;
	for (const Segment& segment : segments) poison_(reinterpret_cast<const void*>(segment.address), segment.length);
}

void Sanitizer::unpoison(std::span<const Segment> segments) const {
	if (!unpoison_) return;
	for (const Segment& segment : segments) unpoison_(reinterpret_cast<const void*>(segment.address), segment.length);
}

}  // namespace verbena::rules
