// The progress thread: drives the engine while no other thread does. It also handles the work
// outside of the data path: peers that connect, and peers that end.
//
// The thread sleeps in epoll on the doorbell, on the listening sockets of the names that this
// process owns, on peers that are connecting, and on the sockets of living peers. While the program
// polls, the process is BUSY, and the thread wakes every 0.2 to 1 ms to see whether the program
// still polls. Once the program has stopped, the thread makes the process ARMED and sleeps until a
// timer or a descriptor wakes it: an idle NIC uses no processor time (docs/decisions/0008).
//
// Threads: hand_over() and take_back() from any thread, without the engine's lock.
// Owns: the thread, which the destructor stops, and the sockets of peers whose greeting is not
//   finished (PendingPeer).
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

	// From hand_over() to take_back(), the calling thread, which blocks in a verb, sleeps on the
	// doorbell, and the progress thread does not. Several threads may do so at once.
	void hand_over();
	void take_back();

	// To be called in the child of a fork, where the thread does not exist. Detaches the thread
	// object and closes the descriptors.
	void abandon_after_fork();

private:
	struct Pending {
		PendingPeer peer;
		Nanoseconds give_up;  // the time at which the connection is closed
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
