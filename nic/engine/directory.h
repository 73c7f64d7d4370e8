// SPDX-License-Identifier: Apache-2.0
// The directory of a host: places, and the processes that own them.
//
// The kernel keeps it (docs/decisions/0005). A process owns a place while it listens on the place's
// names: abstract AF_UNIX names, which are bound atomically, belong to the network namespace (which
// is what a host is), and disappear with the process, kill -9 included. Any user may bind a free
// name, so both ends of a connection ask the kernel for the other's user (SO_PEERCRED), and the
// names that count are those that only this user can compute (place_name.h).
//
// Threads: any. connect() blocks until its deadline.
// Errors: errno values.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <expected>
#include <functional>
#include <optional>
#include <vector>

#include "base/descriptor.h"
#include "nic/engine/peers.h"
#include "nic/engine/place_name.h"

namespace verbena::engine {

// The process at the other end of a connection, as the kernel knows it.
struct PeerUser {
	pid_t pid = 0;  // 0 if it lives in a foreign pid namespace
	uid_t user = 0;
};
std::expected<PeerUser, int> peer_user(int socket);

class Directory {
public:
	// The directory as the processes of `user` see it that know `secret`; without one they use
	// plain names alone.
	Directory(uid_t user, std::optional<NameSecret> secret, Peers peers = Peers::own)
		: user_(user), secret_(secret), peers_(peers) {}
	// As this process sees it. Finds or makes the secret at the first call.
	static Directory of_this_user();

	uid_t user() const { return user_; }
	// True if a link with a process of this user may be made.
	bool admits(uid_t other) const { return other == user_ || peers_ == Peers::host; }

	// The listening sockets of a place: non-blocking, readable when a peer connects, never empty.
	using Listeners = std::vector<Descriptor>;

	// Claims a place. EADDRINUSE: another process of the user owns it, or processes of other users
	// hold all of its names; with Publicly::required and Peers::host also if another user's process
	// holds its public name. Otherwise the place is then this process's for its own user only.
	enum class Publicly { if_free, required };
	std::expected<Listeners, int> claim(Place place, Publicly publicly = Publicly::if_free) const;

	// Connects to the process that owns `place`: one of this user, or with Peers::host of any. The
	// socket may be in blocking mode.
	//   ECONNREFUSED  there is none
	//   EPERM         this process has no secret, and another user holds the name
	//   ETIMEDOUT     the owner's queue of connections stayed full
	struct Owner {
		Descriptor socket;
		PeerUser peer;
	};
	// `patience_with(user)`: the time to wait while the queue of another user's process is full.
	using PatienceWith = std::function<std::chrono::nanoseconds(uid_t user)>;
	std::expected<Owner, int> connect(
		Place place, std::chrono::steady_clock::time_point deadline, const PatienceWith& patience_with = {}) const;

private:
	std::vector<SocketName> keyed_names(Place) const;
	std::expected<Descriptor, int> claim_keyed(Place) const;
	bool is_ours(const SocketName&, int looks) const;

	uid_t user_;
	std::optional<NameSecret> secret_;
	Peers peers_;
};

// Another user than `user` whose process seems to own the place. Only good to explain a refusal:
// any process can bind such a name.
std::optional<uid_t> other_owner(Place place, uid_t user);

}  // namespace verbena::engine
