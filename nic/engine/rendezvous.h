// The set-up of shared memory between two processes of one host: they find each other by a name,
// and exchange the descriptors of their rings.
//
// The kernel is the directory (docs/decisions/0005). A process owns a block of 4,096 queue pair
// numbers while it listens on the abstract AF_UNIX name "@verbena/<uid>/qp/<block>". The name is
// bound atomically, belongs to the network namespace (which is what a host is), and disappears with
// the process, kill -9 included. To reach a QPN, a process connects to the name of its block. An
// rdma_cm service (a port) is found in the same way, by the name "@verbena/<uid>/cm/<service id>".
//
// The greeting is one SOCK_SEQPACKET message each way: HELLO from the side that connects, WELCOME
// in answer. Each carries three descriptors: the memory of the sender's outgoing wire::Direction,
// its doorbell (an eventfd) and its progress page. The socket then stays open and silent; its EOF
// is the peer's end.
//
// Threads: connect_to() blocks, so the calling thread must not hold the engine's lock. PendingPeer
//   never blocks; the progress thread drives it from epoll.
// Owns: a Peer owns all that was received. After a failure everything received is closed.
// Errors: the peer is untrusted. Both ends ask the kernel for the other's user (SO_PEERCRED) before
//   they send or read anything, because any user may bind a free name. Nothing is used before it is
//   checked.
// Invariants: two processes that connect to each other at the same moment get two links. Both must
//   be kept: the peer may already use either, and one that is closed looks like a death there. So
//   that `already_linked` is reliable, an engine makes one connect_to() at a time and registers its
//   Peer before the next, and it registers an accepted Peer under the same lock as the
//   on_readable() that returned it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <compare>
#include <cstdint>
#include <expected>
#include <functional>

#include "nic/engine/descriptor.h"
#include "nic/engine/progress_page.h"
#include "nic/engine/sealed_memory.h"
#include "nic/wire/numbers.h"
#include "nic/wire/slot_ring.h"

namespace verbena::engine {

// QPN = block << 12 | index. Block 0 holds the management QPs and the last one the multicast
// number: neither is ever claimed.
inline constexpr unsigned block_index_bits = 12;
inline constexpr std::uint32_t block_first = 1, block_last = 0xffe;
constexpr std::uint32_t block_of(wire::Qpn qpn) { return qpn.value >> block_index_bits; }

// The name under which a process is found on its host: a block of queue pair numbers, or an rdma_cm
// service.
struct Place {
	std::uint64_t value = 0;
	bool is_service = false;
	static constexpr Place block(std::uint32_t number) { return {number, false}; }
	static constexpr Place service(std::uint64_t id) { return {id, true}; }
	friend auto operator<=>(const Place&, const Place&) = default;
};

// The parts of a greeting that are the same for every peer. The descriptors stay the caller's.
struct Identity {
	std::uint64_t token;  // random: names this process in all its links
	int doorbell_fd;      // eventfd, EFD_NONBLOCK
	int progress_fd;      // create_progress_page()
};

struct BlockName {
	std::uint32_t block;
	Descriptor listener;  // non-blocking; readable when a peer connects
};

// Claims a block that no process on this host owns, chosen at random. Errors: errno values,
// EADDRINUSE when none is left.
std::expected<BlockName, int> claim_block();

// Claims one place, under the names of user `owner`. EADDRINUSE: another process owns it.
std::expected<Descriptor, int> listen_on(uid_t owner, Place place);

// Another process, and everything shared with it. We produce into `outgoing` and consume from
// `incoming`. If `is_self` or `already_linked` is set, nothing below them is.
struct Peer {
	std::uint64_t token = 0;
	pid_t pid = 0;                // from SO_PEERCRED; 0 if it lives in a foreign pid namespace
	bool is_self = false;         // a connection to one's own block: use Link::to_self()
	bool already_linked = false;  // the acceptor has a link with us: use the one of `token`
	Descriptor socket;            // EOF or error: the peer is dead
	Descriptor pidfd;             // readable: the peer is dead. Empty if the kernel has none
	Descriptor doorbell;
	Mapped<const ProgressPage> progress;
	Mapped<wire::Direction> outgoing, incoming;
};

// Connects to the process of user `owner` that owns `place`. Errors:
//   ECONNREFUSED     no such name: the QPN is not on this host
//   EPERM            the name is held by another user
//   ETIMEDOUT        the owner did not answer, or is stopped
//   ECONNRESET       the owner refused us, or died
//   EPROTONOSUPPORT  the owner speaks another version
//   EPROTO           the owner's message was invalid
std::expected<Peer, int> connect_to(const Identity& self, uid_t owner, Place place, std::chrono::milliseconds timeout);

// A connection that a peer opened to us, until its HELLO has arrived. A peer that sends none costs
// a descriptor, so the thread that drives this drops it after `patience`.
class PendingPeer {
public:
	static constexpr std::chrono::milliseconds patience{5000};

	// Accepts the listener's next connection. Errors: EAGAIN when there is none; EPERM when it was
	// another user's than `allowed` and was closed; other errno values.
	static std::expected<PendingPeer, int> accept(int listener, const Identity& self, uid_t allowed);

	enum class Step { done, again, failed };
	// Reads what has arrived. `linked(token)` says whether there is a link with that process
	// already; then the WELCOME says so, and no memory is exchanged.
	Step on_readable(const std::function<bool(std::uint64_t token)>& linked);

	int fd() const { return peer_.socket.get(); }
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
// Covers this message, wire::Direction, wire::Slot and ProgressPage together.
inline constexpr std::uint16_t version = 4;
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
