// SPDX-License-Identifier: Apache-2.0
// Doors: the sockets at which the processes of a host can be asked for a text about themselves.
//
// A process listens on an abstract AF_UNIX name, "@verbena/<uid>/<kind>/<16 random hex digits>",
// which belongs to the network namespace and disappears with the process. A process that connects
// gets a text as a sealed file in memory, and the connection ends. Only processes of the same user
// and of root are answered. Anybody can bind such a name, so a process that asks checks the user at
// the other end (SO_PEERCRED), and believes nothing else.
//
// The kinds are "status", the door of the NIC (nic/status/door.h), and "channels", that of the
// library (lib/channel/status_door.h).
//
// Threads: any.
// Errors: errno values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/descriptor.h"

namespace verbena::door {

// The process's end: a listening socket, non-blocking. `kind` has at most 16 characters.
std::expected<Descriptor, int> open(std::string_view kind, uid_t user);
// Accepts one connection. EAGAIN: there is none. EPERM: it was another user's, and was closed.
std::expected<Descriptor, int> next_visitor(int door);
// Answers it. Never blocks.
std::expected<void, int> answer(const Descriptor& visitor, std::string_view text);
// The last step of answer(): passes the descriptor to the visitor. Public for tests, which pass
// wrong ones.
std::expected<void, int> pass(const Descriptor& visitor, const Descriptor& file);

// A door in the list of the kernel.
struct Found {
	std::string name;
	std::string_view kind() const;
	// The user in the name; nothing if it is no name of a door.
	std::optional<uid_t> user() const;
	friend bool operator==(const Found&, const Found&) = default;
};
// The doors of `user`, or of all users for root, in the text of /proc/net/unix, by their names.
std::vector<Found> found_in(std::string_view proc_net_unix, uid_t user);
// The same for this process's user and network namespace, now.
std::vector<Found> find_all();

// `pid` is the process that has opened the door; 0 if it is not visible from here. ETIMEDOUT: the
// process does not answer. EPERM: the door is not one of `user` or, if that is root, of the user
// whose name it has. EPROTO: the answer is no text. Other errors mean that the process has ended.
struct Answer {
	pid_t pid = 0;
	std::expected<std::string, int> text;
};
// Asks at all these doors at once, and gives the answers that come in time, in the order of the
// doors.
std::vector<Answer> ask(const std::vector<Found>& doors, uid_t user, std::chrono::milliseconds timeout);
// The time that a tool gives each process for its answer.
inline constexpr std::chrono::milliseconds patience{500};

}  // namespace verbena::door
