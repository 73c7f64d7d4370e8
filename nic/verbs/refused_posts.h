// SPDX-License-Identifier: Apache-2.0
// The reasons of refused posts, for the log. A post that fails is checked again, off the hot path,
// to find the argument that is wrong.
//
// Threads: any; not under the queue's lock.
#pragma once

#include <infiniband/verbs.h>

#include "nic/queues/receive_queue.h"
#include "nic/verbs/objects.h"

namespace verbena::verbs {

// Each logs the reason, sets errno to `error` and returns it. `wr` is the request that failed.
[[gnu::cold]] int refuse_send(const SoftQp& sqp, const ibv_send_wr* wr, int error);
[[gnu::cold]] int refuse_receive(const char* verb, const queues::ReceiveQueue& queue, const ibv_recv_wr* wr, int error);

}  // namespace verbena::verbs
