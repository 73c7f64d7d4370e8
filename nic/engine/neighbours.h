// The other processes of this host, as this one knows them: a link to each with which it exchanges
// packets, the names under which they find it, and which of them serves which rdma_cm service.
//
// A neighbour's life: it connects to one of our names (add) or we connect to one of its
// (begin_connect, finish_connect); every pass receives from it; its end is seen on its socket
// (handle_end); a little later its link is retired, and freed when nothing points at it any more.
//
// Threads: every method under the engine's lock, except links_retired().
// Owns: the links, live and retired, and the listening sockets of the claimed names.
// Lifetime: a link never moves. An Outlet* from here dangles after its link was retired and freed;
//   links_retired() has changed by then. Queue pairs are moved to another outlet when the link is
//   retired, and a datagram in a send queue keeps its link from being freed.
// Errors: errno values.
#pragma once

#include <atomic>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "nic/adapter/channel_adapter.h"
#include "nic/engine/epoll_set.h"
#include "nic/engine/link.h"
#include "nic/engine/own_progress.h"
#include "nic/engine/rendezvous.h"

namespace verbena::engine {

class Neighbours {
public:
	// `epoll` watches the names and the neighbours' sockets; `forwarded` takes packets that
	// neighbours received for us. All four outlive this object.
	Neighbours(adapter::ChannelAdapter& adapter, EpollSet& epoll, const OwnProgress& own, ForwardedPackets& forwarded);
	Neighbours(const Neighbours&) = delete;
	Neighbours& operator=(const Neighbours&) = delete;

	// The names of this process. A name is released with its listening socket.
	void add_block(BlockName);
	void add_service(cm::ServiceId, Descriptor listener);
	void remove_service(cm::ServiceId);
	// The first block of queue pair numbers that was claimed; none before the first add_block().
	std::optional<std::uint32_t> first_block() const;
	// `fd` is the listening socket of one of the names.
	bool listens_at(int fd) const;

	// The outlet to the owner of `place`, if there is a link and the process still lives; else
	// null.
	transport::Outlet* find(Place place);
	// The same for a block of queue pair numbers without asking the kernel whether its owner lives.
	transport::Outlet* find_block(std::uint32_t block) const;
	// There is a link with the process that named itself by `token`.
	bool linked(std::uint64_t token) const { return link_by_token_.contains(token); }
	// A peer that connected to one of our names.
	void add(Peer);

	// One attempt to connect to the owner of a place. The caller holds the engine's connect mutex
	// from begin_connect() to finish_connect() and calls connect_to() between them, without the
	// engine's lock.
	struct Attempt {
		Place place;
		Nanoseconds start = 0;
		// The service's owner as known before, and the number of services it had released by then.
		const Link* served_by = nullptr;
		std::optional<std::uint32_t> services_released;
		std::uint32_t links_retired = 0;
	};
	// ETIMEDOUT, unless the caller is `patient`: the owner lately gave no answer.
	std::expected<Attempt, int> begin_connect(Place place, bool patient);
	// Makes the link, or finds the one that is already there.
	std::expected<transport::Outlet*, int> finish_connect(const Attempt&, std::expected<Peer, int>);
	// The next find() of the service fails, so that its owner is looked up anew.
	void forget_owner(cm::ServiceId service) { served_by_.erase(service); }

	// A pass's share: takes in what has arrived, and resumes queue pairs that waited for room in a
	// ring. True: packets arrived.
	bool receive();
	// A queue pair waits for room in a ring.
	bool wait_for_room() const;
	// The program has polled without result for a while: kicks neighbours that have stopped
	// polling. True: a neighbour last ran on processor `cpu`, so the caller should yield it.
	bool kick_stuck(Nanoseconds now, std::uint32_t cpu);

	// A watched descriptor that is no name became readable: if a neighbour's life has ended, its
	// link is retired `mourning` later.
	void handle_end(int fd, Nanoseconds now);
	// Some link is on its way out; call retire_due() in time.
	bool mourns() const { return !dying_.empty(); }
	// Retires the links that are due, and those whose peer wrote nonsense. True: there was one;
	// then the caller lets everything that follows from it leave before it calls
	// free_unreferenced().
	bool retire_due(Nanoseconds now);
	// Frees retired links to which no datagram in a send queue points. `freed` is called for each.
	void free_unreferenced(const std::function<void(const transport::Outlet&)>& freed);
	// Counts retired links. Any thread; an outlet is still there if this has not changed since
	// before it was found, looked at under the engine's lock or a datagram queue pair's send-queue
	// lock.
	std::uint32_t links_retired() const { return links_retired_.load(std::memory_order_acquire); }

	// In the child of a fork: closes every descriptor and forgets all links.
	void abandon_after_fork();

private:
	Link& keep(std::unique_ptr<Link>);
	void retire(Link&);
	Link& dead_end();
	void unwatch(const Link&);

	// A service of another process, so that not every connect looks up its name. A name that was
	// found twice at the same process, with its count of released services read in between, is
	// there as long as that count does not change; `services_released` is that count.
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
	std::map<cm::ServiceId, Descriptor> services_;

	std::vector<std::unique_ptr<Link>> links_;
	std::unordered_map<std::uint64_t, Link*> link_by_token_;
	std::unordered_map<std::uint32_t, Link*> link_by_block_;
	std::map<cm::ServiceId, ServedBy> served_by_;
	std::map<Place, Nanoseconds> silent_until_;  // places whose owner did not answer

	std::vector<Dying> dying_;
	std::vector<std::unique_ptr<Link>> retired_;  // closed, and perhaps still named in a send queue
	Link* dead_end_ = nullptr;                    // from the first retired link on; also in links_
	std::atomic<std::uint32_t> links_retired_{0};
};

}  // namespace verbena::engine
