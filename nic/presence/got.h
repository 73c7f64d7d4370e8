// SPDX-License-Identifier: Apache-2.0
// Redirection of the functions that one loaded library calls: it replaces their addresses in that
// library's global offset table, so the calls of the program and of other libraries stay as they
// are.
//
// Threads: any; one mutex inside.
// Errors: none; a library whose tables cannot be read or written stays as it is.
#pragma once

#include <link.h>

#include <span>
#include <string_view>

namespace verbena::presence {

struct Redirection {
	std::string_view name;
	void* function;
};

// The loaded object that has the code address `caller`, or null.
const link_map* object_of(const void* caller);
// Redirects the calls of an object. Repeating it has no effect; an object that was unloaded and
// loaded again must be redirected again.
void redirect(const link_map& object, std::span<const Redirection> redirections);

}  // namespace verbena::presence
