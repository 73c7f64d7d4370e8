// SPDX-License-Identifier: Apache-2.0
// Events of completion queues that the adversary holds back: they come when the program may have
// polled their completions already.
//
// Threads: any; a mutex inside.
// Invariants: a queue has at most one event here, for which its `event_queued` is set.
#pragma once

#include <mutex>
#include <vector>

#include "base/time.h"
#include "nic/verbs/objects.h"

namespace verbena::verbs {

class LateEvents {
public:
	// Keeps the queue's event until then. False: there is no memory.
	bool hold(SoftCq&, Nanoseconds due) noexcept;
	// The queue is about to be destroyed.
	void drop(const SoftCq&);
	// Puts the events that are due into the queues of their channels.
	void deliver(Nanoseconds now);
	// When deliver() has something to do; `never` if nothing is held back.
	Nanoseconds due() const;

private:
	struct Late {
		SoftCq* queue;
		Nanoseconds due;
	};
	mutable std::mutex mutex_;
	std::vector<Late> late_;
};

}  // namespace verbena::verbs
