// SPDX-License-Identifier: Apache-2.0
// The neighbours of this process, which are the other processes of this host that exchange packets
// with it. This object has the link to each of them, the names under which they find this process,
// and a cache of the owners of rdma_cm services.
//
// The life of a neighbour:
//  1. It connects to one of this process's names (add), or this process connects to one of its
//     names (begin_connect, finish_connect). If both connect at the same moment, they get two
//     links.
//  2. Every pass receives from it (receive).
//  3. It ends, which its socket or its pidfd shows (handle_end).
//  4. A moment later its link is retired (retire_due). The link is freed when no datagram in a send
//     queue points at it (free_unreferenced).
//
// Threads: every method under the engine's lock, except links_retired().
// Owns: the links, live and retired, and the listening sockets of the names that were claimed.
// Lifetime: a link never moves. An Outlet* from here dangles after its link was retired and freed;
//   links_retired() has changed by then. When a link is retired, its queue pairs are moved to
//   another outlet. A datagram in a send queue keeps the link of its outlet from being freed.
// Errors: errno values.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "nic/adapter/channel_adapter.h"
#include "nic/engine/epoll_set.h"
#include "nic/engine/link.h"
#include "nic/engine/own_progress.h"
#include "nic/engine/port_counts.h"
#include "nic/engine/rendezvous.h"

namespace verbena::engine {

class Neighbours {
public:
	// `epoll` watches the listening sockets of the names and the neighbours' sockets. `forwarded`
	// takes packets that neighbours received for this process. All four outlive this object.
	Neighbours(adapter::ChannelAdapter& adapter, EpollSet& epoll, const OwnProgress& own, ForwardedPackets& forwarded);
	Neighbours(const Neighbours&) = delete;
	Neighbours& operator=(const Neighbours&) = delete;

	// The names of this process, blocks and services. Each was claimed by its listening sockets,
	// and closing these releases it.
	// Both fail, without effect, if a listening socket cannot be watched.
	std::expected<void, int> add_block(BlockName);
	std::expected<void, int> add_service(cm::ServiceId, Directory::Listeners);
	void remove_last_block() { blocks_.pop_back(); }
	void remove_service(cm::ServiceId);
	// The first block of queue pair numbers that was claimed; none before the first add_block().
	std::optional<std::uint32_t> first_block() const;
	// True if `fd` is a listening socket of one of the names.
	bool listens_at(int fd) const;

	// The outlet to the owner of `place`. Null if no link to the owner is known, or if the owner
	// has ended.
	transport::Outlet* find(Place place);
	// As find() for a block of queue pair numbers, but does not ask the kernel whether the owner
	// has ended.
	transport::Outlet* find_block(std::uint32_t block) const;
	// True if there is a link with the process of the user whose Identity has this token.
	bool linked(uid_t user, std::uint64_t token) const { return link_by_token_.contains({user, token}); }
	// True if another link with a process of `user`, another user, may be made.
	bool has_room_for(uid_t user) const;
	// Makes the link with a peer that connected to one of this process's names. Without memory or a
	// place in `epoll`, drops the peer, which sees that as the end of this process.
	void add(Peer);

	// One attempt to connect to the owner of a place. The caller holds the engine's connect mutex
	// from begin_connect() to finish_connect() and calls connect_to() between them, without the
	// engine's lock.
	struct Attempt {
		Place place;
		Nanoseconds start = 0;  // the time of begin_connect()
		// The cached owner of the service, and its count of released services at `start`.
		const Link* served_by = nullptr;
		std::optional<std::uint32_t> services_released;
		std::uint32_t links_retired = 0;  // links_retired() at `start`
	};
	// Fails with ETIMEDOUT if the owner lately gave no answer, unless the caller is `patient`.
	std::expected<Attempt, int> begin_connect(Place place, bool patient);
	// Takes the result of connect_to(). Makes the link, or finds the one that there is already, and
	// remembers it as the way to the place.
	std::expected<transport::Outlet*, int> finish_connect(const Attempt&, std::expected<Peer, int>);
	// Makes the next find() of the service fail, so that the caller connects to its owner anew.
	void forget_owner(cm::ServiceId service) { served_by_.erase(service); }

	// From now on links are made for direct operations (docs/decisions/0036).
	void use_direct() { uses_direct_ = true; }
	// True if a living neighbour has announced a direct operation that matches, and has not ended
	// it. The caller has withdrawn the right before: no other can begin.
	bool announces(const std::function<bool(wire::DirectAccess)>& match) const;

	// The part of a pass that serves the links: takes in the packets that have arrived, and resumes
	// queue pairs that wait for room in a ring. Returns whether packets arrived.
	bool receive();
	// True if a queue pair waits for room in a ring.
	bool wait_for_room() const;
	// To call when the program has polled without result for a while. Kicks each neighbour that has
	// unread slots and no longer polls. Returns true if the engine of a neighbour last ran on
	// `cpu`, the caller's processor, so that the caller should yield it.
	bool kick_stuck(Nanoseconds now, std::uint32_t cpu);

	// To call when `fd`, a watched descriptor that is no listening socket, became readable. If it
	// belongs to a neighbour that has ended, the neighbour's link is due to be retired a moment
	// later (`mourning` in neighbours.cc). If it is a stranger's, takes its kicks; the caller makes
	// a pass afterwards. False: a stranger kicks too often, so `fd` is to be left alone for a
	// while.
	bool handle_readable(int fd, Nanoseconds now);
	// True if `fd` is the socket of a living stranger.
	bool hears_stranger_at(int fd) const;
	// True while a neighbour has ended and its link is not retired; the caller then calls
	// retire_due() now and then.
	bool mourns() const { return !dying_.empty(); }
	// Retires the links that are due, and those whose peer wrote invalid data (Link::broken()). If
	// it returns true, it has retired a link. The caller then empties the lists of the pass
	// (Engine::finish) before it calls free_unreferenced(), because they point at outlets.
	bool retire_due(Nanoseconds now);
	// Frees retired links to whose outlet no datagram in a send queue points, and calls `freed` for
	// each. Frees none while a thread posts datagrams; a later call does.
	void free_unreferenced(const std::function<void(const transport::Outlet&)>& freed);
	// The number of links retired so far. Any thread may call this. An outlet is valid if the
	// number is the same as before the outlet was found, and the thread that compares them holds
	// the engine's lock or the send queue's lock of a datagram queue pair.
	std::uint32_t links_retired() const { return links_retired_.load(std::memory_order_acquire); }

	// The outlets of the datagrams in all send queues; the caller frees no others. Nullopt while a
	// thread posts datagrams, because it may be about to use one more.
	std::optional<std::vector<const void*>> outlets_of_datagrams();
	// To call when an outlet over UDP was retired: those who remember outlets look them up again.
	void count_retired() { links_retired_.fetch_add(1, std::memory_order_release); }

	// Adds the traffic of all links, also of those that were freed.
	void count(PortCounts&) const;

	// In the child of a fork: closes every descriptor and forgets all links.
	void abandon_after_fork();

private:
	// Adds the link to `links_` and watches its sockets. Null: the peer's end could not be watched,
	// and errno has the reason.
	using PeerKey = std::pair<uid_t, std::uint64_t>;  // user and token
	Link* keep(std::unique_ptr<Link>, PeerKey);
	std::expected<void, int> watch(const Directory::Listeners&);
	void retire(Link&);
	static void count(const Link&, PortCounts&);
	Link& dead_end();  // makes the dead end at the first call (Link::to_dead_end)
	void unwatch(const Link&);

	// The cached owner of a service, so that not every connection set-up connects to the service's
	// name first. Two attempts to connect must have found the service at this owner. Between them
	// this process read how many services the owner had released, `services_released`. While the
	// owner's number does not change, the owner still has the service. After only one attempt
	// `services_released` is empty, and find() does not use the entry.
	struct ServedBy {
		Link* link;
		std::optional<std::uint32_t> services_released;
	};
	// A neighbour that has ended; its link is retired at `due`.
	struct Dying {
		const Link* link;
		Nanoseconds due;
	};

	adapter::ChannelAdapter& adapter_;
	EpollSet& epoll_;
	const OwnProgress& own_;
	ForwardedPackets& forwarded_;

	std::vector<BlockName> blocks_;
	std::map<cm::ServiceId, Directory::Listeners> services_;

	std::vector<std::unique_ptr<Link>> links_;
	std::map<PeerKey, Link*> link_by_token_;
	std::unordered_map<std::uint32_t, Link*> link_by_block_;
	std::map<cm::ServiceId, ServedBy> served_by_;
	// Places whose owner did not answer, and the time until which only patient callers try again.
	std::map<Place, Nanoseconds> silent_until_;

	std::vector<Dying> dying_;
	std::vector<std::unique_ptr<Link>> retired_;  // datagrams in send queues may point at these
	bool uses_direct_ = false;
	Link* dead_end_ = nullptr;  // in `links_` too; null before the first link is retired
	std::atomic<std::uint32_t> links_retired_{0};
	PortCounts past_;  // the traffic of freed links, and errors of links that were retired
};

}  // namespace verbena::engine
