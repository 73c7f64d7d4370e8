// SPDX-License-Identifier: Apache-2.0
// The boundary between the NIC, which may throw, and the C program that called it: an exception
// becomes an errno value. The standard library throws when memory (std::bad_alloc), a lock or the
// kernel's randomness (std::system_error) cannot be had, and none of these may end the program.
//
// The functions of nic/verbs and nic/ucma that a program or librdmacm calls go through bounded().
// The functions of the data path do not: they cannot throw (nic/verbs/objects.h).
//
// Threads: any.
// Invariants: the thread cannot be cancelled inside, because a verb that holds half of its locks
//   must not unwind. The verbs that block sleep outside of bounded() (waiting.h).
#pragma once

#include <cerrno>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "base/cancellation.h"
#include "base/log.h"

namespace verbena::engine {

// The errno value of the exception that is being handled. EIO: an exception that the environment
// does not cause.
[[gnu::cold]] inline int errno_of_exception() noexcept {
	try {
		throw;
	} catch (const std::bad_alloc&) {
		return ENOMEM;
	} catch (const std::length_error&) {
		return ENOMEM;
	} catch (const std::system_error& error) {
		return error.code().value() > 0 ? error.code().value() : EIO;
	} catch (...) {
		return EIO;
	}
}

// Sets errno for the exception that is being handled, prints the reason and returns errno. Does not
// allocate. Without a `call` it prints nothing.
[[gnu::cold]] inline int refuse_exception(std::string_view call) noexcept {
	const int error = errno_of_exception();
	if (call.empty()) return errno = error;
	return log::refuse(error, "%.*s: %s", static_cast<int>(call.size()), call.data(),
		error == ENOMEM ? "no memory; the process or its container has reached its limit" : std::strerror(error));
}

// Runs act() and returns its result. If act() throws, returns failed(errno value) with errno set.
// `call` names the function of the program for the log; if it is empty, the caller logs.
template <class Act, class Failed>
auto bounded(std::string_view call, Act&& act, Failed&& failed) -> decltype(std::forward<Act>(act)()) {
	const NotCancellable whole;
	try {
		return std::forward<Act>(act)();
	} catch (...) {
		return std::forward<Failed>(failed)(refuse_exception(call));
	}
}

// Runs act() on a thread of the NIC's own, or while the process forks or exits, where no program
// gets an errno value. False: it threw, and what it had not done is left out or done later.
template <class Act> bool attempt(Act&& act) noexcept {
	try {
		std::forward<Act>(act)();
		return true;
	} catch (...) {
		return false;
	}
}

}  // namespace verbena::engine
