// SPDX-License-Identifier: Apache-2.0
// The door at which the processes of a host can be asked for their status.
//
// A process listens on an abstract AF_UNIX name, "@verbena/<uid>/status/<16 random hex digits>",
// which belongs to the network namespace and disappears with the process. A process that connects
// gets the text of status.h as a sealed file in memory, and the connection ends. Only processes of
// the same user and of root are answered. Anybody can bind such a name, so a process that asks
// checks the user at the other end (SO_PEERCRED), and believes nothing else.
//
// Threads: any.
// Errors: errno values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"
#include "nic/status/status.h"

namespace verbena::status {

// The process's end: a listening socket, non-blocking.
std::expected<Descriptor, int> open_door(uid_t user);
// Accepts one connection. EAGAIN: there is none. EPERM: it was another user's, and was closed.
std::expected<Descriptor, int> next_visitor(int door);
// Answers it. Never blocks.
std::expected<void, int> answer(const Descriptor& visitor, std::string_view text);
// The last step of answer(): passes the descriptor to the visitor. Public for tests, which pass
// wrong ones.
std::expected<void, int> pass(const Descriptor& visitor, const Descriptor& file);

// The names of the doors of `user`, or of all users for root, in the text of /proc/net/unix.
std::vector<std::string> doors_in(std::string_view proc_net_unix, uid_t user);
// Asks at all these doors at once, and gives the answers that come in time, in the order of the
// doors. ETIMEDOUT: the process is stopped. EPERM: the door is not one of `user` or, if that is
// root, of the user whose name it has. EPROTO: the answer is no status. Other errors mean that the
// process has ended.
using Answer = std::expected<Process, int>;
std::vector<Answer> ask(const std::vector<std::string>& doors, uid_t user, std::chrono::milliseconds timeout);

// All processes of this user (of all users for root) in this network namespace, by pid; those that
// do not answer are left out.
std::vector<Process> ask_all();

}  // namespace verbena::status
