// The progress thread: drives the engine while no other thread does, and handles what is no part of
// the data path: peers that connect, and the end of peers.
//
// It sleeps in epoll on the doorbell, on the names that this process owns, on peers that are
// connecting, and on the sockets of living peers. While the program polls (BUSY) it wakes now and
// then to see whether the program still does. Once the program has stopped, the process is ARMED
// and the thread sleeps without a time limit: an idle NIC uses no processor time
// (docs/decisions/0008).
//
// Threads: hand_over() and take_back() from any thread, without the engine's lock.
// Owns: the thread, which the destructor stops, and the connections of peers that have not said yet
//   who they are.
#pragma once

#include <map>
#include <mutex>
#include <thread>

#include "nic/engine/engine.h"

namespace verbena::engine {

class Progress {
public:
	Progress(Engine& engine, OwnProgress& own, EpollSet& epoll) : engine_(engine), own_(own), epoll_(epoll) {}
	~Progress();

	// Returns 0 or an errno value.
	int start();

	// From hand_over() to take_back(), a thread that blocks in a verb sleeps on the doorbell
	// instead of the progress thread. Several threads may do so at once.
	void hand_over();
	void take_back();

	// In the child of a fork, which has no such thread.
	void abandon_after_fork();

private:
	struct Pending {
		PendingPeer peer;
		Nanoseconds give_up;
	};

	void run();
	void handle(int fd);
	void accept_from(int listener);
	void greet(std::map<int, Pending>::iterator);
	void expire_greetings();

	Engine& engine_;
	OwnProgress& own_;
	EpollSet& epoll_;
	Descriptor stop_;
	std::mutex handed_over_mutex_;
	int handed_over_ = 0;
	std::thread thread_;
	std::map<int, Pending> greetings_;  // used by the thread alone
};

}  // namespace verbena::engine
