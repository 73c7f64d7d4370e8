// The progress thread: makes passes while nobody else does, and watches what is no part of the data path.
//
// It sleeps in epoll on the doorbell, on the names this process owns, on peers in the middle of a greeting, and on
// living peers' sockets, whose end is the peer's death. While the program polls (BUSY) it wakes now and then to see
// whether it still does; when it has stopped, the page says ARMED and the thread sleeps without a time limit: an idle
// NIC uses no processor.
#pragma once

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "nic/engine/engine.h"

namespace verbena::engine {

class Progress {
public:
	explicit Progress(Engine& engine);
	~Progress();  // stops the thread

	int start();  // 0 or errno

	// Under the engine's lock.
	void listen(int listener);
	void watch(const Link& link);
	void forget(const Link& link);
	void watch(const link::UdpLink& udp);
	void abandon_after_fork();  // in the child, which has no such thread
	void set_armed();
	void program_polls();  // the program drives the engine itself: BUSY
	void nudge();          // whoever sleeps on the doorbell looks again

	// Between these a thread that blocks in a verb is who wakes by the doorbell. Any thread, without the engine's lock.
	void hand_over();
	void take_back();

private:
	struct Pending {
		PendingPeer peer;
		Nanoseconds give_up;
	};

	struct Dying {
		const Link* link;
		Nanoseconds due;
	};

	void run();
	Nanoseconds work();  // passes and the choice of state; returns how long to sleep
	void handle(int fd);
	void accept_from(int listener);
	void greet(std::map<int, Pending>::iterator);
	void expire_greetings();
	void bury(int fd);
	void bury_due();
	bool add(int fd);

	Engine& engine_;
	Descriptor epoll_;
	Descriptor stop_;
	std::mutex handed_over_mutex_;
	int handed_over_ = 0;
	std::thread thread_;
	int udp_fd_ = -1;
	std::vector<Dying> dying_;
	std::map<int, Pending> greetings_;
	Nanoseconds watchdog_ = 0;  // how long it sleeps while the program polls
	std::uint64_t passes_seen_ = 0;
	Nanoseconds last_moved_ = 0;
};

}  // namespace verbena::engine
