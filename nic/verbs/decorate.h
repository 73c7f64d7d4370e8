// SPDX-License-Identifier: Apache-2.0
// Functions in the tables of libibverbs that are replaced by others, which call them.
//
// Threads: tables are filled before the program has the object; the kept functions may be read by
//   any thread.
#pragma once

#include <atomic>

#include <infiniband/verbs.h>

namespace verbena::verbs {

// The functions that were in the tables before those of a decorator; null for those that it leaves.
struct ReplacedFunctions {
	std::atomic<int (*)(ibv_qp*, ibv_send_wr*, ibv_send_wr**)> post_send;
	std::atomic<int (*)(ibv_qp*, ibv_recv_wr*, ibv_recv_wr**)> post_recv;
	std::atomic<int (*)(ibv_srq*, ibv_recv_wr*, ibv_recv_wr**)> post_srq_recv;
	std::atomic<int (*)(ibv_cq*, int, ibv_wc*)> poll_cq;
	std::atomic<int (*)(ibv_cq*, int)> req_notify_cq;
	std::atomic<void (*)(ibv_qp_ex*)> start_post, abort_post;
	std::atomic<int (*)(ibv_qp_ex*)> complete_post;
	std::atomic<int (*)(ibv_cq_ex*, ibv_poll_cq_attr*)> start_poll;
	std::atomic<int (*)(ibv_cq_ex*)> next_poll;
};

// Puts `function` into the table, and keeps the one that was there.
template <class Slot, class Function> void replace(std::atomic<Slot>& kept, Slot& slot, Function function) {
	kept.store(slot, std::memory_order_relaxed);
	slot = function;
}

}  // namespace verbena::verbs
