// SPDX-License-Identifier: Apache-2.0
// The driver of one process's adapter: it has the lock, the links, the clock, and a thread that
// sleeps until it is needed.
//
// A thread that calls into the NIC drives it. A poster transmits at once if the engine is free, and
// leaves a doorbell if it is not. A poller that finds its queue empty makes a pass: it takes in
// what arrived, runs timers, transmits, and publishes completions. The progress thread makes passes
// while no other thread does (progress.h). Same-host peers are in Neighbours, other hosts in
// Remotes.
//
// Threads: all public functions from any thread, unless they say otherwise. A caller must not hold
//   a queue lock that a pass takes; "under the engine's lock" means inside control().
// Owns: everything below it. One engine per process, made by nic/verbs/process.cc.
// Errors: errno values. After a fork the child's engine answers EIO to everything.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "nic/adapter/channel_adapter.h"
#include "nic/engine/ack_delay.h"
#include "nic/engine/doorbells.h"
#include "nic/engine/engine_lock.h"
#include "nic/engine/epoll_set.h"
#include "nic/engine/interfaces.h"
#include "nic/engine/neighbours.h"
#include "nic/engine/own_progress.h"
#include "nic/engine/program_polls.h"
#include "nic/engine/remotes.h"
#include "nic/engine/watch.h"

namespace verbena::engine {

struct BlockingCall;
class Progress;
class WaitSet;

class Engine {
public:
	// Sinks of completion notifications and asynchronous events. Called under the engine's lock,
	// except `interfaces`: the progress thread calls it without the lock after interfaces or their
	// addresses have changed, with the changes of links in their order. If it returns false, it is
	// called again.
	struct Events {
		void (*completion)(queues::CompletionQueue&);
		void (*asynchronous)(const transport::RaisedEvent&);
		void (*connection)(cm::ConnectionManager&, Nanoseconds now, const cm::Event&);
		bool (*interfaces)(std::span<const LinkChange>);
		// The counters may have changed; only called while watch_counters(true).
		void (*counted)(Engine&);
		// The text with which this process answers at its door (base/door.h). The progress
		// thread calls it without the lock.
		std::string (*status)(Engine&);
	};

	// `network`: the faults that the process's packets meet; null: none. All its packets then take
	// UDP, also those to this host. `direct`: peers of this host may execute operations in memory.
	static std::expected<std::unique_ptr<Engine>, int> start(
		Events, std::unique_ptr<faults::Network> network = {}, bool direct = true);
	~Engine();
	Engine(const Engine&) = delete;
	Engine& operator=(const Engine&) = delete;

	// Data path: `qp` has new send WQEs, or its receive queue must be flushed. Never blocks.
	void post(transport::QueuePair& qp);
	// Data path: a poller found its queue empty. Makes a pass unless another thread is in one. True
	// means that nothing has moved for long, so the caller should yield the processor as soon as it
	// holds no lock.
	[[nodiscard]] bool poll();

	// Control path: runs `act(adapter)` under the lock, then lets everything that follows from it
	// leave.
	template <class Act> auto control(Act&& act) {
		lock_.lock();
		struct Leave {
			Engine& engine;
			~Leave() {
				// Here and not in leave(): at unlock the lock passes to a thread that waits for it,
				// and leave(), which only tries it, might find it taken each time.
				if (engine.doorbells_.rung()) [[unlikely]]
					engine.ring_doorbells();
				engine.finish();
				engine.leave();
			}
		} leave{*this};
		refresh_clock();
		// The act may destroy or reset the queue pair of an acknowledgement that waits.
		if (ack_delay_.waiting()) [[unlikely]]
			finish();
		return act(adapter_);
	}

	// The outlet to `qpn` at the addresses' destination: the link to the process that owns it if
	// that is on this host (`local`), otherwise a UDP path. Made if need be; may block for seconds,
	// so the caller must not hold a lock that a pass takes. A caller that is not `patient` gets
	// ETIMEDOUT at once for a process that lately gave no answer (it is stopped); waiting for it
	// would hold up datagrams to others.
	std::expected<transport::Outlet*, int> outlet_to(const wire::AddressPair&, bool local, wire::Qpn qpn, bool patient);
	// A connected queue pair begins to use this outlet. Within control().
	void begin_use(transport::Outlet& outlet, wire::Qpn own, wire::Qpn peer) {
		remotes_.ask_for_room(outlet, own, peer);
	}
	// The outlet to the process that serves `service` at the addresses' destination. ECONNREFUSED:
	// the destination is this host, and no process does. May block like outlet_to().
	std::expected<transport::Outlet*, int> service_outlet(const wire::AddressPair&, bool local, cm::ServiceId);
	// The outlet to the owner of a place on this host. ECONNREFUSED: no process owns it; other
	// errors of connect_to(). May block like outlet_to().
	std::expected<transport::Outlet*, int> neighbour_outlet(Place, bool patient = true);
	// Counts retired links (Neighbours::links_retired()).
	std::uint32_t links_retired() const { return neighbours_.links_retired(); }
	// The last known owner of the service does not serve it: the next service_outlet() looks it up
	// anew. Under the lock, as in Events.
	void forget_service(cm::ServiceId service) { neighbours_.forget_owner(service); }
	// Print why a peer on another host did not answer or refused a request for a connection.
	// explain_icmp() prints a line only if an ICMP message about the host came within `age`, and
	// says whether it did. Under the lock, as in Events.
	void explain_no_answer(const wire::Gid& peer, Nanoseconds age);
	bool explain_icmp(const wire::Gid& peer, Nanoseconds age);
	// The index under which datagrams through `outlet` carry these addresses. ENOSPC: its table is
	// full.
	std::expected<std::uint8_t, int> address_index(transport::Outlet& outlet, const wire::AddressPair&);

	// From now on datagrams from other hosts are received. If port 4791 cannot be had, only those
	// of same-host peers are. Fails if there is no descriptor or memory for the set of its sockets.
	std::expected<void, int> listen_udp();
	// This process serves `service` on this host until it releases it. EADDRINUSE: another process
	// does.
	std::expected<void, int> claim_service(cm::ServiceId);
	void release_service(cm::ServiceId);
	// Before the first connection: claims numbers that name connections, and listens to UDP.
	std::expected<void, int> prepare_connections();
	// Datagrams to the group that arrive on the interface reach the QP. A QP that is attached stays
	// so. An errno value of a socket call.
	std::expected<void, int> attach_multicast(
		transport::QueuePair&, const wire::Gid& group, std::uint32_t interface_index);
	// EINVAL: the QP is not attached to the group.
	std::expected<void, int> detach_multicast(transport::QueuePair&, const wire::Gid& group);
	// Detaches the QPs for which `ends` is true from all groups.
	void leave_groups(const std::function<bool(const transport::QueuePair&)>& ends);

	// A QP, with a new block of numbers if the last one is used up. ENOMEM, or an error of
	// claim_block().
	std::expected<transport::QueuePair*, int> create_qp(const adapter::QpInit&);
	// The counts of all that the ports have sent and received, and the adapter's other counters.
	// Under the lock, as in Events.
	PortCounts port_counts() const;
	const transport::Counters& counters() const { return adapter_.context().counters; }
	const cm::ConnectionManager::Counters& connection_counters() const { return adapter_.connections().counters(); }
	// Whether Events::counted is called, at the end of each step that may change a counter.
	void watch_counters(bool watch) { counters_watched_.store(watch, std::memory_order_relaxed); }

	// The faults that packets of this process meet; null: none.
	const faults::Network* network() const { return network_.get(); }

	// At the end of the process: acknowledgements that wait leave. Throws if this thread was
	// interrupted in a pass, by the signal whose handler ends the process.
	void leave_behind_nothing();

	// To call after a right was withdrawn: waits until no living peer executes a direct operation
	// that matches, for 2 ms at most. False: one does, and may go on at any time, as it is stopped.
	// await_direct_locked() is for use inside control().
	[[nodiscard]] bool await_direct(const std::function<bool(wire::DirectAccess)>& match);
	[[nodiscard]] bool await_direct_locked(const std::function<bool(wire::DirectAccess)>& match) const;

	// Completes receives that were posted to a QP in the error state.
	void flush_receives(transport::QueuePair& qp);

	// The program asked for an event and will probably sleep: peers must kick from now on.
	void arm();
	// For a thread that blocks in a verb until the descriptor of `waiting` is readable: drives the
	// engine, before each sleep and after it. One wake-up instead of the two that a hand-over from
	// the progress thread takes.
	// ready: the descriptor is readable. asleep: the verb returns, and sleeping() calls it again
	// after the sleep that `call` describes. failed: errno is EINTR after a signal for which a
	// blocking read() would have returned it, or the sleep failed.
	enum class Wait { ready, asleep, failed };
	Wait drive_until_readable(WaitSet& waiting, BlockingCall& call);

	// Around a fork, so that the child finds the engine between two passes. False: another thread
	// held it for too long, and it is not held now.
	bool hold_for_fork();
	void release_in_parent() { leave(); }
	// In the child: closes every descriptor, and with them this process's share in the parent's
	// names. The objects stay and can be destroyed; their QPs are in the error state and have no
	// outlet.
	void abandon_after_fork();

	// For the progress thread: one round of driving the engine. Makes a pass, unless packets of
	// other hosts are left to a program that makes passes (watch.h), retires dead neighbours, and
	// arms the process when no thread drives the engine. Returns the time that it may sleep;
	// `never`: until a descriptor is readable.
	struct WokenBy {
		bool kick = false, packets = false;
	};
	Nanoseconds drive_in_background(WokenBy);
	// The thread that drove the engine last in a verb and was idle; 0: none was.
	pid_t driver() const { return driver_.load(std::memory_order_relaxed); }
	// True if Events::interfaces is called for every change. False where the kernel refuses
	// to report changes.
	bool watches_interfaces() const;

	// For the progress thread, inside control().
	Neighbours& neighbours() { return neighbours_; }

private:
	Engine(Events events, OwnProgress own, EpollSet epoll, std::unique_ptr<faults::Network> network, bool direct);

	// These seven do not throw: a step that finds no memory is left for the next pass.
	bool pass() noexcept;  // under the lock; true: packets moved
	// Under the lock: responses, wake-ups and events leave; acknowledgements may wait if so said.
	void finish(adapter::Acks acks = adapter::Acks::leave) noexcept;
	void leave() noexcept;  // unlocks, and serves the doorbells that rang meanwhile
	void ring_and_leave(transport::QueuePair& qp) noexcept;
	void ring_doorbells() noexcept;
	bool take_turns(transport::QueuePair& qp) noexcept;
	void begin_direct(bool allowed);
	bool is_wire_only(Place);  // the queue pairs of its owner are reached by UDP alone
	void no_memory() noexcept;  // to call when a step of a pass threw
	bool left_nothing(const transport::QueuePair& qp) const;
	void deliver_touched();
	void deliver_events();
	void refresh_clock() { adapter_.begin_pass(monotonic_now()); }
	std::expected<void, int> claim_another_block();  // under the lock
	// To another host: for the packets of a queue pair, or for management datagrams.
	enum class For { packets, management };
	std::expected<transport::Outlet*, int> wire_outlet(const wire::AddressPair&, For);
	void retire_unused_outlets();  // under the lock
	bool waits_for_room() const;
	Nanoseconds idle_time();  // the time that the thread which drives the engine may sleep now
	void watch_requests(bool kicked, bool moved, bool others_poll);
	bool asks_for_requests();
	adapter::Acks acks_of_tick();
	void arm_wakes();  // peers kick, and packets wake the progress thread, from now on
	bool driver_ran(Nanoseconds now);  // the program's thread, since the last call (watch.h)
	void correct_sleeper();  // wakes the progress thread if a timer is due before it would wake

	EngineLock lock_;
	std::mutex connect_mutex_;  // from the start of one connect_to() until its link is registered
	StrangerPatience stranger_patience_;  // under connect_mutex_
	adapter::ChannelAdapter adapter_;
	Events events_;
	OwnProgress own_;
	EpollSet epoll_;
	std::unique_ptr<faults::Network> network_;
	Neighbours neighbours_;
	Remotes remotes_;
	std::unordered_map<const transport::Outlet*, std::vector<wire::AddressPair>> addresses_;
	bool abandoned_ = false;

	alignas(64) Doorbells doorbells_;
	ProgramPolls program_polls_;
	alignas(64) std::uint64_t passes_ = 0;
	std::atomic<bool> counters_watched_{false};
	std::uint64_t gathered_packets_ = 0;  // written by post() since the last finish()
	std::uint32_t full_passes_ = 0;  // since timers last ran
	std::uint32_t idle_polls_ = 0;
	std::uint32_t armed_polls_ = 0;
	Nanoseconds sleep_deadline_ = 0;  // the progress thread wakes by then, whatever happens
	Watch packet_watch_, request_watch_;
	AckDelay ack_delay_;
	// The last pass took in requests; among them WRITEs that only the program's memory shows.
	bool had_requests_ = false, had_silent_writes_ = false;
	// The request that is being posted ends with a completion, for which the program will poll.
	bool poster_polls_ = true;
	bool polled_since_kick_ = false;  // other threads have made passes since a peer's last kick
	std::atomic<pid_t> driver_{0};
	Nanoseconds driver_ran_ = 0, driver_seen_ = 0;  // its processor time at the last tick, and then
	bool no_memory_ = false;  // a step of a pass is to be repeated
	Nanoseconds watchdog_ = 0;  // the progress thread's sleep while the program polls
	Nanoseconds last_moved_ = 0;
	Nanoseconds attentive_until_ = 0;  // the progress thread does not sleep before
	std::unique_ptr<Progress> progress_;
};

}  // namespace verbena::engine
