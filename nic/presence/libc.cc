// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/libc.h"

namespace verbena::presence {

namespace libc {
#define VERBENA_DEFINE(name, ...) constinit RealFunction<__VA_ARGS__> name{#name};
VERBENA_LIBC_FUNCTIONS(VERBENA_DEFINE)
#undef VERBENA_DEFINE
}  // namespace libc

namespace {

// Signal handlers and children of vfork may call open() and stat(), but must not call dlsym.
[[gnu::constructor]] void look_up_early() {
#define VERBENA_LOOK_UP(name, ...) libc::name.look_up();
	VERBENA_LIBC_FUNCTIONS(VERBENA_LOOK_UP)
#undef VERBENA_LOOK_UP
}

}  // namespace
}  // namespace verbena::presence
