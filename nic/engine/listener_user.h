// SPDX-License-Identifier: Apache-2.0
// The users whose processes listen at abstract socket names, found without a connection.
//
// A connection shows the user as well, and costs less. It needs room in the queue of the listening
// socket, though, which a stranger can keep full.
//
// Threads: any. Costs a list of all listening AF_UNIX sockets of the network namespace.
// Errors: nothing if no process listens at the name, or if the kernel does not say: before Linux
//   5.3, without its module unix_diag, or if a filter of system calls forbids netlink.
#pragma once

#include <sys/types.h>

#include <optional>

#include "nic/engine/place_name.h"

namespace verbena::engine {

std::optional<uid_t> listener_user(const SocketName& name);

// Whether a process of `user` listens at a public name (place_name.h), and so admits other users.
// Nothing if the kernel does not say, or lists no socket at all.
std::optional<bool> listens_publicly(uid_t user);

}  // namespace verbena::engine
