// SPDX-License-Identifier: Apache-2.0
// One end of one cell: its memory (buffers.h), queue pair and completion queue. Each repetition
// makes a new one, before the measured time, so that no state of one measurement reaches the next.
//
// The measured loops use an endpoint through the functions that the concept End lists, and through
// nothing else; a test gives them an end that follows a script (scripted_end.h).
//
// Threads: one thread.
// Lifetime: `device` and, if given, the rdma_cm connection must outlive it.
#pragma once

#include <concepts>

#include "bench/rcud/buffers.h"
#include "bench/rcud/traffic.h"
#include "lib/verbs/queue_pair.h"

namespace verbena::rcud {

// An end as the measured loops see it: its memory, and what moves messages and time.
template <class T>
concept End = std::derived_from<T, Buffers> &&
	requires(T& end, const T& constant, ibv_send_wr* requests, ibv_recv_wr* receives, ibv_wc* completions) {
		end.post_sends(requests);  // a list; a Failure if it is refused
		end.post_receives(receives);
		{ end.poll(completions) } -> std::same_as<int>;  // at most poll_batch completions
		{ end.now() } -> std::same_as<std::uint64_t>;    // nanoseconds; need not be steady
		{ constant.lkey() } -> std::same_as<std::uint32_t>;
		{ constant.qp_num() } -> std::same_as<std::uint32_t>;
		{ constant.address_handle() } -> std::same_as<ibv_ah*>;  // UD
	};

struct Endpoint : Buffers {
	// With `connection` the queue pair is made on that rdma_cm connection, which connects it
	// (managed.h); `device` must then be the connection's. Throws a Failure.
	Endpoint(const lib::OpenDevice& device, const Cell& cell, const Shape& shape, Side role,
		std::uint32_t inline_wanted, std::uint32_t qkey = default_qkey, rdma_cm_id* connection = nullptr);

	static constexpr std::uint32_t default_qkey = 0x1111'1111;

	Address address() const;
	// Moves an RC queue pair to RTS; makes the address handle of a UD one, which is in RTS already.
	// Not for an endpoint that rdma_cm connects.
	void connect(const Address& remote);

	// For the measured loops (End).
	void post_sends(ibv_send_wr* requests) {
		ibv_send_wr* bad = nullptr;
		check_posted(ibv_post_send(qp.get(), requests, &bad), "ibv_post_send");
	}
	void post_receives(ibv_recv_wr* receives) {
		ibv_recv_wr* bad = nullptr;
		check_posted(ibv_post_recv(qp.get(), receives, &bad), "ibv_post_recv");
	}
	int poll(ibv_wc* completions) { return rcud::poll(cq.get(), completions); }
	static std::uint64_t now() { return now_ns(); }
	std::uint32_t lkey() const { return memory->lkey; }
	std::uint32_t qp_num() const { return qp->qp_num; }
	ibv_ah* address_handle() const { return ah.get(); }

	const lib::OpenDevice& device;
	const std::uint32_t qkey;
	const std::uint32_t psn = lib::random_psn();

	lib::CompletionQueue cq;
	lib::MemoryRegion memory;
	lib::AddressHandle ah;
	lib::QueuePair qp;
};

static_assert(End<Endpoint>);

}  // namespace verbena::rcud
