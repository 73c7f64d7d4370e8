// SPDX-License-Identifier: Apache-2.0
// The set-up of shared memory between two processes of one host: they find each other in the
// Directory, and exchange the descriptors of their rings.
//
// The greeting is one SOCK_SEQPACKET message each way: HELLO from the side that connects, WELCOME
// in answer. Each carries four descriptors: the memory of the sender's outgoing wire::Direction,
// its doorbell (an eventfd), its progress page and, if it has one, its table of rights. The socket
// then stays open and silent; its EOF is the peer's end.
//
// Between processes of two users (VERBENA_PEERS=host, docs/decisions/0030) there is no table of
// rights, because neither may touch the other's memory, and no doorbell: an eventfd has flags that
// both ends can change, and a peer that makes it blocking could stop this process. The two kick
// each other by a byte on the socket instead. All memory must be sealed.
//
// Threads: connect_to() blocks, so the calling thread must not hold the engine's lock. PendingPeer
//   never blocks; the progress thread drives it from epoll.
// Owns: a Peer owns all that was received. After a failure everything received is closed.
// Errors: the peer is untrusted. Both ends ask the kernel for the other's user (SO_PEERCRED) before
//   they send or read anything. Nothing is used before it is checked.
// Invariants: two processes that connect to each other at the same moment get two links. Both must
//   be kept: the peer may already use either, and one that is closed looks like a death there. So
//   that `already_linked` is reliable, an engine makes one connect_to() at a time and registers its
//   Peer before the next, and it registers an accepted Peer under the same lock as the
//   on_readable() that returned it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <expected>
#include <functional>

#include "base/descriptor.h"
#include "nic/engine/directory.h"
#include "nic/engine/progress_page.h"
#include "nic/engine/sealed_memory.h"
#include "nic/engine/stranger_patience.h"
#include "nic/memory/rights_table.h"
#include "nic/wire/slot_ring.h"

namespace verbena::engine {

// The parts of a greeting that are the same for every peer. The descriptors stay the caller's.
struct Identity {
	std::uint64_t token;  // random: names this process in all its links
	int doorbell_fd;      // eventfd, EFD_NONBLOCK
	int progress_fd;      // create_progress_page()
	int rights_fd;        // create_rights_table(); -1: there is none
};

struct BlockName {
	std::uint32_t block;
	Directory::Listeners listeners;
};

// Claims a block that no process of the user owns, chosen at random. Errors: errno values,
// EADDRINUSE when none is left.
std::expected<BlockName, int> claim_block(const Directory& directory);

// Another process, and everything shared with it. We produce into `outgoing` and consume from
// `incoming`. If `is_self` or `already_linked` is set, nothing below them is.
struct Peer {
	std::uint64_t token = 0;
	pid_t pid = 0;                // from SO_PEERCRED; 0 if it lives in a foreign pid namespace
	uid_t user = 0;               // from SO_PEERCRED
	bool is_stranger = false;     // `user` is not this process's: `doorbell` and `rights` are empty
	bool is_self = false;         // a connection to one's own block: use Link::to_self()
	bool already_linked = false;  // the acceptor has a link with us: use the one of `token`
	Descriptor socket;            // EOF or error: the peer is dead
	Descriptor pidfd;             // readable: the peer is dead. Empty if the kernel has none
	Descriptor doorbell;
	Mapped<const ProgressPage> progress;
	Mapped<const memory::RightsTable> rights;  // null: the peer publishes none
	Mapped<wire::Direction> outgoing, incoming;
};

// Connects to the process of the directory's user that owns `place`. Errors:
//   ECONNREFUSED     no such process: the QPN is not on this host
//   EPERM            another user holds the name, and this process knows no other
//   ENOTSUP          the owner is another user's, and this process cannot seal memory
//   ETIMEDOUT        the owner did not answer, or is stopped, or is another user's and is skipped
//   ECONNRESET       the owner refused us, has no descriptor left, or died
//   EPROTONOSUPPORT  the owner speaks another version
//   EPROTO           the owner's message was invalid
// `strangers`: limits the time for which this waits for processes of other users, and is charged.
std::expected<Peer, int> connect_to(const Identity& self, const Directory& directory, Place place,
	std::chrono::milliseconds timeout, StrangerPatience* strangers = nullptr);

// A connection that a peer opened to us, until its HELLO has arrived. A peer that sends none costs
// a descriptor, so the thread that drives this drops it after `patience`.
class PendingPeer {
public:
	static constexpr std::chrono::milliseconds patience{5000};

	// Accepts the listener's next connection. Errors: EAGAIN when there is none; EPERM when it was
	// one of a user that the directory does not admit and was closed; other errno values.
	static std::expected<PendingPeer, int> accept(int listener, const Identity& self, const Directory& directory);

	enum class Step { done, again, failed };
	// Reads what has arrived. `linked(user, token)` says whether there is a link with that process
	// already; then the WELCOME says so, and no memory is exchanged. Its error refuses the peer.
	using Linked = std::function<std::expected<bool, int>(uid_t user, std::uint64_t token)>;
	Step on_readable(const Linked& linked);

	int fd() const { return peer_.socket.get(); }
	bool is_stranger() const { return peer_.is_stranger; }
	uid_t user() const { return peer_.user; }
	int error() const { return error_; }  // after failed
	Peer take() { return std::move(peer_); }  // after done

private:
	PendingPeer(Identity self, Peer peer) : self_(self), peer_(std::move(peer)) {}

	Identity self_;
	Peer peer_;
	int error_ = 0;
};

namespace greeting {

// The message: fixed layout, the host's byte order. Public because tests and the fuzzer send
// invalid ones.
inline constexpr std::uint32_t magic = 0x76'62'6e'61;  // "vbna"
// Covers this message, wire::Direction, wire::Slot, ProgressPage and RightsTable together.
inline constexpr std::uint16_t version = 6;
enum class Kind : std::uint8_t { hello = 1, welcome = 2 };

struct Message {
	std::uint32_t magic = greeting::magic;
	std::uint16_t version = greeting::version;
	Kind kind = Kind::hello;
	// In a WELCOME to the same process or to one that is linked already: no descriptors follow.
	std::uint8_t no_link = 0;
	std::uint64_t token = 0;
	std::uint32_t direction_bytes = sizeof(wire::Direction);
	std::uint32_t progress_bytes = sizeof(ProgressPage);
};
static_assert(sizeof(Message) == 24);

}  // namespace greeting

}  // namespace verbena::engine
