// How two processes of one host find each other and come to share memory.
//
// The kernel is the directory: a process owns a block of 4,096 queue pair numbers while it listens on the abstract
// AF_UNIX name
// "@verbena/<uid>/qp/<block>". The name is bound atomically, belongs to the network namespace (which is what a host
// is), and is gone with the process, kill -9 included. To reach a QPN, connect to its block's name.
//
// One SOCK_SEQPACKET message each way, HELLO from the side that connects and WELCOME in answer, each with three
// descriptors: the memory of the sender's own outgoing wire::Direction, its doorbell (an eventfd) and its progress
// page. Both ends ask the kernel who the other is (SO_PEERCRED) before they send or read anything, because anybody may
// bind a free name. Nothing that comes in is used before it is checked; whatever fails closes all it received. The
// socket then stays open, silent: its EOF is the peer's death.
//
// connect_to() blocks, for application threads that do not hold the engine lock. PendingPeer never blocks: the thread
// that owns the listening socket drives it from epoll.
//
// A service of rdma_cm (a port) is found in the same way, by the name "@verbena/<uid>/cm/<service id>".
//
// Two processes that connect to each other at the same moment get two links. Both must be kept: the other end may
// already use either, and one that is dropped looks like a death there. So that `already_linked` can be believed, an
// engine (a) makes one connect_to() at a time and registers its Peer before the next, and (b) registers an accepted
// Peer under the same lock as the on_readable() that gave it.
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

// QPN = block << 12 | index. Block 0 holds the management QPs and the last one the multicast number: neither is ever
// claimed.
inline constexpr unsigned block_index_bits = 12;
inline constexpr std::uint32_t block_first = 1, block_last = 0xffe;
constexpr std::uint32_t block_of(wire::Qpn qpn) { return qpn.value >> block_index_bits; }

// What a process owns on its host and is found by: a block of queue pair numbers, or a service of rdma_cm.
struct Place {
	std::uint64_t value = 0;
	bool is_service = false;
	static constexpr Place block(std::uint32_t number) { return {number, false}; }
	static constexpr Place service(std::uint64_t id) { return {id, true}; }
	friend auto operator<=>(const Place&, const Place&) = default;
};

// What a process tells its peers. The descriptors are borrowed.
struct Identity {
	std::uint64_t token;  // random: this process and no other, however often it links
	int doorbell_fd;      // eventfd, EFD_NONBLOCK
	int progress_fd;      // create_progress_page()
};

struct BlockName {
	std::uint32_t block;
	Descriptor listener;  // non-blocking; readable when a peer connects
};

// A block that nobody on this host owns, chosen at random. Errors: errno, EADDRINUSE when none is left.
std::expected<BlockName, int> claim_block();

// One given place of `owner`. EADDRINUSE: taken.
std::expected<Descriptor, int> listen_on(uid_t owner, Place place);

// Another process, and everything shared with it. `outgoing` is what we produce into, `incoming` what we consume.
struct Peer {
	std::uint64_t token = 0;
	pid_t pid = 0;               // as the kernel tells it; 0 if it lives in a foreign pid namespace
	bool is_self = false;        // a connection to one's own block: use a loop link. Nothing below is set
	bool already_linked = false; // the acceptor has a link with us: use the one of `token`. Nothing below is set
	Descriptor socket;           // EOF or error: the peer is dead
	Descriptor pidfd;            // readable: the peer is dead. Empty where the kernel gives none
	Descriptor doorbell;
	Mapped<const ProgressPage> progress;
	Mapped<wire::Direction> outgoing, incoming;
};

// The process that owns `place` among those of user `owner`. Errors:
//   ECONNREFUSED     no such name: the QPN is not on this host
//   EPERM            the name is held by another user
//   ETIMEDOUT        the owner did not answer, or is stopped
//   ECONNRESET       the owner refused us, or died
//   EPROTONOSUPPORT  the owner speaks another version
//   EPROTO           the owner speaks nonsense
std::expected<Peer, int> connect_to(const Identity& self, uid_t owner, Place place, std::chrono::milliseconds timeout);

// A connection that a peer opened to us, until it has said who it is. One that stays silent costs a descriptor: whoever
// drives it drops it after `patience`.
class PendingPeer {
public:
	static constexpr std::chrono::milliseconds patience{5000};

	// The listener's next connection; other users' are refused. Errors: EAGAIN when there is none, EPERM, other errno
	// values.
	static std::expected<PendingPeer, int> accept(int listener, const Identity& self, uid_t allowed);

	enum class Step { done, again, failed };
	// `linked(token)`: have we got a link with that process? Then the answer says so and no memory is exchanged.
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

// The message, fixed layout, in the host's byte order. Public for whoever wants to speak it badly, that is, for tests.
inline constexpr std::uint32_t magic = 0x76'62'6e'61;  // "vbna"
// Of this message, wire::Direction, wire::Slot and ProgressPage together.
inline constexpr std::uint16_t version = 4;
enum class Kind : std::uint8_t { hello = 1, welcome = 2 };

struct Message {
	std::uint32_t magic = greeting::magic;
	std::uint16_t version = greeting::version;
	Kind kind = Kind::hello;
	std::uint8_t no_link = 0;  // WELCOME to oneself or to a process already linked: no descriptors follow
	std::uint64_t token = 0;
	std::uint32_t direction_bytes = sizeof(wire::Direction);
	std::uint32_t progress_bytes = sizeof(ProgressPage);
};
static_assert(sizeof(Message) == 24);

}  // namespace greeting

}  // namespace verbena::engine
