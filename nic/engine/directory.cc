// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/directory.h"

#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/private_folder.h"
#include "base/user_secret.h"
#include "nic/engine/interfaces.h"
#include "nic/engine/listener_user.h"
#include "nic/engine/unreachable.h"

namespace verbena::engine {

namespace {

using Clock = std::chrono::steady_clock;

// Also the most connections of strangers that wait to be refused.
constexpr int backlog = 128;
// The owner of a name that was just bound may not listen yet.
constexpr int looks_at_bound_name = 20;
// A process of this user accepts within this time, unless it is stopped.
constexpr std::chrono::milliseconds accept_patience{50};

Descriptor make_socket() { return Descriptor(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

std::expected<Descriptor, int> listen_on(const SocketName& name) {
	Descriptor listener = make_socket();
	if (!listener || bind(listener.get(), name.get(), name.length) != 0 || listen(listener.get(), backlog) != 0)
		return std::unexpected(errno);
	return listener;
}

std::expected<Directory::Owner, int> identify(Descriptor connected) {
	const auto peer = peer_user(connected.get());
	if (!peer) return std::unexpected(peer.error());
	return Directory::Owner{std::move(connected), *peer};
}

// EAGAIN: the owner's queue of connections is full.
std::expected<Directory::Owner, int> connect_at_once(const SocketName& name) {
	Descriptor socket = make_socket();
	if (!socket) return std::unexpected(errno);
	int result;
	do result = connect(socket.get(), name.get(), name.length);
	while (result != 0 && errno == EINTR);
	if (result != 0) return std::unexpected(errno);
	return identify(std::move(socket));
}

// While the owner's queue of connections is full, connect() waits, for at most SO_SNDTIMEO.
std::expected<Directory::Owner, int> connect_before(const SocketName& name, Clock::time_point deadline) {
	Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (!socket) return std::unexpected(errno);
	for (;;) {
		const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline - Clock::now()).count();
		if (left <= 0) return std::unexpected(ETIMEDOUT);
		const timeval limit{left / 1'000'000, left % 1'000'000};
		if (setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) return std::unexpected(errno);
		if (connect(socket.get(), name.get(), name.length) == 0) return identify(std::move(socket));
		if (errno == EAGAIN) return std::unexpected(ETIMEDOUT);
		if (errno != EINTR) return std::unexpected(errno);
	}
}

struct KnownSecret {
	uid_t user;
	std::optional<NameSecret> secret;
};
// Never freed, because another thread may be reading it; a program changes its user rarely.
std::atomic<const KnownSecret*> known{nullptr};

void say_private(Place place, const SocketName& public_name) {
	char what[64];
	const char* const form = place.is_service ? "port %u of rdma_cm" : "block %u of queue pair numbers";
	// The port is the end of its service id.
	const auto number = place.is_service ? static_cast<std::uint16_t>(place.value) : place.value;
	std::snprintf(what, sizeof what, form, static_cast<unsigned>(number));
	explain_private(listener_user(public_name), what);
}

void explain_no_secret() {
	const auto foreign = foreign_folder(private_folders());
	if (!foreign)
		return log::warn(
			"other users can predict and take the names of this user's sockets: there is no "
			"place for a secret; 'verbena doctor' says what helps");
	log::warn(
		"other users can predict and take the names of this user's sockets: user id %u has made %s, in which their "
		"secret could be; let root remove it, or set XDG_RUNTIME_DIR or HOME to a folder of yours",
		foreign->owner, foreign->path.c_str());
}

}  // namespace

std::expected<PeerUser, int> peer_user(int socket) {
	ucred other;
	socklen_t length = sizeof other;
	if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &length) != 0) return std::unexpected(errno);
	return PeerUser{other.pid, other.uid};
}

Directory Directory::of_this_user() {
	const uid_t user = geteuid();
	const KnownSecret* found = known.load(std::memory_order_acquire);
	if (!found || found->user != user) {
		auto made = std::make_unique<KnownSecret>(user, std::nullopt);
		if (const auto secret = find_user_secret()) made->secret = secret->bytes;
		else explain_no_secret();
		found = made.release();
		known.store(found, std::memory_order_release);
	}
	return {user, found->secret, allowed_peers()};
}

std::vector<SocketName> Directory::keyed_names(Place place) const {
	std::vector<SocketName> names;
	if (!secret_) return names;
	const Descriptor any = make_socket();
	const std::uint64_t cookie = any ? namespace_cookie(any.get()) : 0;
	for (unsigned i = 0; i < generations(place); ++i) names.push_back(keyed_name(*secret_, cookie, place, i));
	return names;
}

// True if a process of this user listens at the name. If the kernel does not say so, a process
// whose queue stays full is taken for a stranger: a stranger could otherwise keep this user's
// programs from a name by never accepting.
bool Directory::is_ours(const SocketName& name, int looks) const {
	for (int look = 0; look < looks; ++look) {
		if (look > 0) sched_yield();
		auto owner = connect_at_once(name);
		if (!owner && owner.error() == EAGAIN) {
			if (const auto user = listener_user(name)) return *user == user_;
			owner = connect_before(name, Clock::now() + accept_patience);
		}
		if (owner) return owner->peer.user == user_;
		if (owner.error() == ETIMEDOUT) return false;
		if (owner.error() != ECONNREFUSED) return true;
	}
	return false;
}

// Takes the first name that no stranger holds. Two processes may see different names as the first
// one, because a stranger came or went between them. They find each other's name in the last
// loop; then one of them gives up, or both. An empty result means that strangers hold all names.
std::expected<Descriptor, int> Directory::claim_keyed(Place place) const {
	const std::vector<SocketName> names = keyed_names(place);
	Descriptor taken;
	std::size_t at = 0;
	for (; at < names.size() && !taken; ++at) {
		auto listener = listen_on(names[at]);
		if (listener) taken = std::move(*listener);
		else if (listener.error() != EADDRINUSE || is_ours(names[at], looks_at_bound_name))
			return std::unexpected(listener.error());
	}
	for (std::size_t other = 0; other < names.size(); ++other)
		if (other + 1 != at && is_ours(names[other], 1)) return std::unexpected(EADDRINUSE);
	return taken;
}

std::expected<Directory::Listeners, int> Directory::claim(Place place, Publicly publicly) const {
	Listeners listeners;
	if (auto keyed = claim_keyed(place); !keyed) return std::unexpected(keyed.error());
	else if (*keyed) listeners.push_back(std::move(*keyed));
	const SocketName plain = plain_name(user_, place);
	if (auto listener = listen_on(plain)) listeners.push_back(std::move(*listener));
	else if (listener.error() != EADDRINUSE || listeners.empty() || is_ours(plain, looks_at_bound_name))
		return std::unexpected(listener.error());
	if (peers_ == Peers::own) return listeners;
	const SocketName known_to_all = public_name(place);
	if (auto listener = listen_on(known_to_all)) listeners.push_back(std::move(*listener));
	else if (listener.error() != EADDRINUSE || publicly == Publicly::required ||
		is_ours(known_to_all, looks_at_bound_name))
		return std::unexpected(listener.error());
	else say_private(place, known_to_all);
	return listeners;
}

std::expected<Directory::Owner, int> Directory::connect(
	Place place, Clock::time_point deadline, const PatienceWith& patience_with) const {
	std::vector<SocketName> names = keyed_names(place);
	names.push_back(plain_name(user_, place));
	if (peers_ == Peers::host) names.push_back(public_name(place));
	std::vector<const SocketName*> busy;
	Clock::time_point strangers_deadline = Clock::time_point::max();
	int error = ECONNREFUSED;
	const auto is_for_all = [&](const SocketName& name) { return peers_ == Peers::host && &name == &names.back(); };
	const auto take = [&](const SocketName& name, const std::expected<Owner, int>& owner) {
		if (owner && (owner->peer.user == user_ || is_for_all(name))) return true;
		// With a secret, a stranger at one of the names says nothing about the place's owner.
		if (owner && !secret_) error = EPERM;
		return false;
	};
	for (const SocketName& name : names) {
		auto owner = connect_at_once(name);
		if (take(name, owner)) return owner;
		if (owner || owner.error() == ECONNREFUSED) continue;
		if (owner.error() != EAGAIN) return owner;
		const auto user = listener_user(name);
		if (user && *user != user_ && is_for_all(name) && patience_with)
			strangers_deadline = Clock::now() + patience_with(*user);
		if (!user || *user == user_ || is_for_all(name)) busy.push_back(&name);
		else if (!secret_) error = EPERM;
	}
	// Where the kernel does not name the user, strangers may hold some of these, so each gets its
	// share of the time.
	for (std::size_t i = 0; i < busy.size(); ++i) {
		const auto now = Clock::now();
		const auto share = now + (deadline - now) / static_cast<int>(busy.size() - i);
		auto owner = connect_before(*busy[i], is_for_all(*busy[i]) ? std::min(share, strangers_deadline) : share);
		if (take(*busy[i], owner)) return owner;
		if (!owner && owner.error() != ECONNREFUSED) error = owner.error();
	}
	return std::unexpected(error);
}

// The names of other users' places are in a list that every process can read.
std::optional<uid_t> other_owner(Place place, uid_t user) {
	const std::unique_ptr<std::FILE, int (*)(std::FILE*)> names(std::fopen("/proc/self/net/unix", "re"), std::fclose);
	const char* const form = place.is_service ? "@verbena/%u/cm/%llx" : "@verbena/%u/qp/%llu";
	for (char line[256]; names && std::fgets(line, sizeof line, names.get());) {
		const char* const name = std::strstr(line, "@verbena/");
		uid_t owner = 0;
		unsigned long long value = 0;
		if (name && std::sscanf(name, form, &owner, &value) == 2 && value == place.value && owner != user) return owner;
	}
	return std::nullopt;
}

}  // namespace verbena::engine
