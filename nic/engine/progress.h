// SPDX-License-Identifier: Apache-2.0
// The progress thread: drives the engine while no other thread does. It also handles the work
// outside of the data path: peers that connect, peers that end, and questions for the status.
//
// The thread sleeps in epoll on the doorbell, on the listening sockets of the names that this
// process owns, on peers that are connecting, and on the sockets of living peers. While the program
// polls, the process is BUSY, and the thread wakes every 0.2 to 1 ms to see whether the program
// still polls. Once the program has stopped, the thread makes the process ARMED and sleeps until a
// timer or a descriptor wakes it: an idle NIC uses no processor time (docs/decisions/0008). Packets
// of other hosts wake it while it is ARMED, and while watch.h says so.
//
// Threads: prepare() from any thread without the engine's lock; wake() from any thread.
// Owns: the thread, which the destructor stops, and the sockets of peers whose greeting is not
//   finished (PendingPeer).
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "nic/engine/engine.h"
#include "nic/engine/flood_guard.h"
#include "nic/engine/interface_watch.h"
#include "nic/engine/thread.h"
#include "nic/engine/waiting.h"

namespace verbena::engine {

class Progress {
public:
	Progress(Engine& engine, OwnProgress& own, EpollSet& epoll, const Engine::Events& events)
		: engine_(engine), own_(own), epoll_(epoll), interfaces_changed_(events.interfaces), status_(events.status) {}
	~Progress();

	// Returns 0 or an errno value.
	int start();

	// Puts the doorbell into the set of a queue for which threads are about to sleep, before the
	// progress thread's own place at the doorbell. Null: there is no descriptor or memory for it.
	EpollSet* prepare(WaitSet&);
	// Makes the thread do a round, after which it knows when the next timer is due.
	void wake();

	// True if the thread reports changes of interfaces. Does not change after start().
	bool watches_interfaces() const { return watch_.has_value(); }

	// To be called in the child of a fork, where the thread does not exist. Detaches the thread
	// object and closes the descriptors.
	void abandon_after_fork();

private:
	struct Pending {
		PendingPeer peer;
		Nanoseconds give_up;  // the time at which the connection is closed
	};

	void run();
	void round();  // the thread does this after each sleep
	void handle(int fd);
	void accept_from(int listener);
	void answer_at_door();
	void rest_from(int listener, std::uint32_t strangers, bool fails);
	void visit_flooded(Nanoseconds now);  // for the sockets whose pause is over
	bool takes_stranger(uid_t user) const;
	Nanoseconds until_next_visit() const;  // to call while there are such sockets
	void greet(std::map<int, Pending>::iterator);
	void expire_greetings();
	void report_interfaces();
	Nanoseconds next_report() const;  // the time until the next report_interfaces(), or `never`

	Engine& engine_;
	OwnProgress& own_;
	EpollSet& epoll_;
	Descriptor woken_;  // an eventfd: wake() and the end
	std::atomic<bool> stopping_ = false;
	// A second descriptor of the doorbell, which may be missing. One of the two is in `epoll_`, and
	// the other one replaces it when a new set must come before.
	Descriptor second_bell_;
	std::mutex bell_mutex_;
	int bell_ = -1;
	Thread thread_;
	// Used by the thread alone.
	std::map<int, Pending> greetings_;
	FloodGuard flood_guard_;
	// Listening sockets that are not in `epoll_`, because strangers flood them, and sockets of
	// strangers that kick too often; and the time of the next visit.
	std::map<int, Nanoseconds> flooded_;
	Nanoseconds sleep_ = 0;
	Engine::WokenBy woken_by_;  // in this round
	std::uint32_t rounds_ = 0;

	bool (*interfaces_changed_)(std::span<const LinkChange>);
	std::optional<InterfaceWatch> watch_;
	// Used by the thread alone: changes that were not reported yet, and when the next report may
	// be.
	bool unreported_ = false;
	std::vector<LinkChange> links_changed_;
	Nanoseconds report_after_ = 0;

	std::string (*status_)(Engine&);
	Descriptor door_;  // where this process says how it is (base/door.h); may be missing
};

}  // namespace verbena::engine
