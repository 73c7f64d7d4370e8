// SPDX-License-Identifier: Apache-2.0
// Sentences about waits that may never end: a thread that waits for a completion event which
// nothing will raise, and a destroy function that waits for acknowledgements.
//
// Threads: any, without a lock.
// Errors: none.
#pragma once

#include "nic/engine/waiting.h"
#include "nic/verbs/objects.h"

namespace verbena::verbs {

// To call before each sleep of ibv_get_cq_event(): makes the thread look again when the wait is
// overdue, and explains it then if no completion queue of the channel can raise an event.
void watch_for_lost_wakeup(engine::BlockingCall&, ibv_comp_channel*);

// The destroy function `verb` has waited until it was overdue for these numbers of events.
[[gnu::cold]] void explain_unacknowledged(
	const char* verb, std::uint32_t completion_events, std::uint32_t asynchronous_events);

}  // namespace verbena::verbs
