// What drives the adapter of one process: the lock, the links, the clock and a thread that sleeps until somebody needs
// it.
//
// Whoever calls into the NIC drives it. A poster transmits at once if the engine is free and leaves a doorbell if it is
// not; a poller that finds its queue empty makes a pass. The progress thread (progress.cc) makes passes only when
// nobody else does: it is woken by the doorbell of a peer that published while this process was ARMED, accepts new
// peers, and notices deaths. See progress_page.h for the two states.
//
// One engine a process, made by verbs/process.cc. All public functions may be called from any thread, never under one
// of the queue locks that a pass takes (it takes none).
#pragma once

#include <atomic>
#include <expected>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "nic/adapter/channel_adapter.h"
#include "nic/engine/engine_lock.h"
#include "nic/engine/link.h"
#include "nic/engine/progress_page.h"
#include "nic/engine/remotes.h"
#include "nic/engine/rendezvous.h"

namespace verbena::engine {

class Progress;

class Engine {
public:
	// Where completions that were asked for, and asynchronous events, go. Called under the engine's lock.
	struct Events {
		void (*completion)(queues::CompletionQueue&);
		void (*asynchronous)(const transport::RaisedEvent&);
		void (*connection)(cm::ConnectionManager&, Nanoseconds now, const cm::Event&);
	};

	static std::expected<std::unique_ptr<Engine>, int> start(Events);
	~Engine();
	Engine(const Engine&) = delete;
	Engine& operator=(const Engine&) = delete;

	// Data path: `qp` has new send WQEs, or its receive queue must be flushed.
	void post(transport::QueuePair& qp);
	// Data path: a poller found nothing. Makes a pass unless another thread is in one.
	void poll();

	// Control path: runs `act(adapter)` under the lock, then lets everything that follows from it leave.
	template <class Act> auto control(Act&& act) {
		lock_.lock();
		struct Leave {
			Engine& engine;
			~Leave() {
				// Under the lock: those who wait for it get it at unlock, one after the other, and leave() would find
				// it taken each time.
				if (engine.doorbells_.load(std::memory_order_relaxed)) [[unlikely]]
					engine.ring_doorbells();
				engine.finish();
				engine.leave();
			}
		} leave{*this};
		refresh_clock();
		return act(adapter_);
	}

	// The way to `qpn` at the addresses' destination: the link to the process that owns it if that is on this host
	// (`local`), otherwise UDP. Made if need be; may block for a moment, so never from under a lock that a pass takes.
	// `patient`: waits even for a process that lately gave no answer (ETIMEDOUT: it is stopped), which would hold up
	// datagrams to others.
	std::expected<transport::Outlet*, int> outlet_to(const wire::AddressPair&, bool local, wire::Qpn qpn, bool patient);
	// Counts the links that have ended. What outlet_to() gave is there as long as this is what it was before the call,
	// looked at under the engine's lock or under the lock of the send queue of a datagram QP.
	std::uint32_t deaths() const { return deaths_.load(std::memory_order_acquire); }
	// From now on datagrams from other hosts are received. If port 4791 cannot be had, only same-host ones are.
	void listen_udp();
	// The way to whoever serves `service` at the addresses' destination. ECONNREFUSED: on this host, and nobody does.
	// May block like outlet_to().
	std::expected<transport::Outlet*, int> service_outlet(const wire::AddressPair&, bool local, cm::ServiceId);
	// Nobody serves it there, whatever was known: the next service_outlet() looks anew. Under the lock, as in Events.
	void forget_service(cm::ServiceId service) { served_by_.erase(service); }
	// A service is this process's on this host, until it is released. EADDRINUSE: another's.
	std::expected<void, int> claim_service(cm::ServiceId);
	void release_service(cm::ServiceId);
	// Before the first connection: numbers to name connections by, and UDP to hear of them.
	std::expected<void, int> prepare_connections();
	// Datagrams to the group that arrive on the interface reach the QP. Error: an errno value, EINVAL if they did
	// before, or did not.
	std::expected<void, int> attach_multicast(
		transport::QueuePair&, const wire::Gid& group, std::uint32_t interface_index);
	std::expected<void, int> detach_multicast(
		transport::QueuePair&, const wire::Gid& group, std::uint32_t interface_index);
	// Completes receives that were posted to a QP in the error state.
	void flush_receives(transport::QueuePair& qp);
	// The index under which datagrams through `outlet` carry these addresses.
	std::expected<std::uint8_t, int> address_index(transport::Outlet& outlet, const wire::AddressPair&);

	// A QP, with a new block of numbers if the last one is used up. Errors are errno values.
	std::expected<transport::QueuePair*, int> create_qp(const adapter::QpInit&);

	// The program asked for an event and will probably sleep: peers must kick from now on.
	void arm();
	// Drives the engine until `fd` is readable (true) or a signal came for which a blocking read() would have returned
	// EINTR (false). For threads that block in a verb: one wake-up where handing over from the progress thread would
	// take two.
	bool drive_until_readable(int fd);

	// Around a fork, so that the child finds the engine between two passes. False: it could not be had within reason,
	// and is not held.
	bool hold_for_fork();
	void release_in_parent() { leave(); }
	// In the child: gives up every descriptor, and with them this process's part in the parent's names. The objects
	// stay and can be destroyed; their QPs are in error, and nothing leads anywhere any more (EIO).
	void abandon_after_fork();

private:
	friend class Progress;
	friend class Remotes;
	explicit Engine(Events events);

	bool pass();  // under the lock; true: something moved
	void finish();  // under the lock: responses, wake-ups and events leave
	void leave();  // unlocks, and serves the doorbells that rang meanwhile
	void ring_doorbells();
	void deliver_touched();
	void deliver_events();
	void refresh_clock() { adapter_.begin_pass(monotonic_now()); }
	Link* keep(std::unique_ptr<Link>);  // under the lock
	std::expected<transport::Outlet*, int> local_outlet(
		Place, bool patient = true);  // ECONNREFUSED: nobody on this host owns it
	transport::Outlet* known_outlet(Place);
	std::expected<void, int> claim_another_block();  // under the lock
	void drop_broken_links();
	void bury(Link&);  // under the lock: the peer is dead
	void reap();  // under the lock: frees the dead links to which nothing points
	bool waits_for_room() const;
	Nanoseconds idle_time();  // how long who drives the engine may sleep now
	void correct_sleeper();  // a timer was set, or a ring found full, of which the sleeping thread does not know

	EngineLock lock_;
	std::mutex connect_mutex_;  // one greeting at a time, and its link registered before the next
	std::map<Place, Nanoseconds> silent_until_;  // under connect_mutex_: places whose owner did not answer
	adapter::ChannelAdapter adapter_;
	Events events_;
	std::vector<std::unique_ptr<Link>> links_;
	std::vector<std::unique_ptr<Link>> dead_;  // closed, and perhaps still named by a datagram in a send queue
	Link* nobody_ = nullptr;  // from the first death on
	std::atomic<std::uint32_t> deaths_{0};
	bool abandoned_ = false;
	Remotes remotes_{*this};
	std::unordered_map<std::uint64_t, Link*> link_by_token_;
	std::unordered_map<std::uint32_t, Link*> link_by_block_;
	std::map<cm::ServiceId, Descriptor> services_;
	// Whose services of others are, so that not every connect looks for a name. A name that was found twice at the same
	// process, with its count of released services read in between, is there as long as that count stands still;
	// `released` is that count.
	struct ServedBy {
		Link* link;
		std::optional<std::uint32_t> released;
	};
	std::map<cm::ServiceId, ServedBy> served_by_;
	std::unordered_map<const transport::Outlet*, std::vector<wire::AddressPair>>
		addresses_;  // those in each direction's table
	std::vector<BlockName> blocks_;
	SealedMemory<ProgressPage> page_;
	Descriptor doorbell_;
	Identity identity_{};

	alignas(64) std::atomic<transport::QueuePair*> doorbells_{nullptr};
	alignas(64) std::uint64_t passes_ = 0;
	std::uint64_t gathered_packets_ = 0;  // written by post() since the last finish()
	std::uint32_t idle_polls_ = 0;
	std::uint32_t armed_polls_ = 0;
	Nanoseconds progress_deadline_ = 0;  // the progress thread looks again by then, whatever happens
	Nanoseconds thread_deadline_ = 0;  // and whoever sleeps by this
	std::unique_ptr<Progress> progress_;
};

}  // namespace verbena::engine
