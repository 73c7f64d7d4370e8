// SPDX-License-Identifier: Apache-2.0
// Error: why an operation of the store failed.
//
// Threads: any; a value.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::kv {

enum class Error : std::uint8_t {
	missing,      // the key does not exist
	empty_key,
	long_key,
	long_value,
	changed,      // the key has another version than expected; nothing has changed
	full,         // the store has reached its memory limit
	disk,         // the server could not write the change to its disk; nothing has changed
	unsupported,  // rendezvous over a channel that is not direct
	old_server,   // the server is of an earlier version and does not know this operation
	member,       // the server is a member of a cluster, and the client was not given its prefix
	many_watches,  // this client has watches_max watches already
	no_memory,    // this process has no registered memory left
	lost,         // the connection ended; whether the store has changed is unknown
	unavailable,  // the deadline passed without a server; nothing has changed, and nothing will
	// The deadline passed. A change may have been executed, or may yet be, once at most.
	timeout,
};
// Returns one sentence that says what happened and, where there is a remedy, suggests it.
std::string_view sentence_of(Error error);

}  // namespace verbena::kv
