// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/ordered_path.h"

#include <array>
#include <atomic>
#include <cstdint>

#include "nic/rules/thread_sanitizer.h"
#include "nic/verbs/decorate.h"

namespace verbena::verbs {
namespace {

using rules::ThreadSanitizer;

// All objects have the same.
constinit ReplacedFunctions unordered{};

// Addresses that stand for the order of one queue pair, or of a few, and for that of all shared
// receive queues. Nothing is stored there.
std::array<std::uint64_t, 4096> orders;
void* order_of(std::uint32_t qpn) { return &orders[1 + qpn % (orders.size() - 1)]; }
void* order_of_shared_queues() { return orders.data(); }

void posted(std::uint32_t qpn) { ThreadSanitizer::found()->release(order_of(qpn)); }

void polled(std::uint32_t qpn, std::uint32_t peer_qpn, bool received) {
	const ThreadSanitizer& tsan = *ThreadSanitizer::found();
	tsan.acquire(order_of(qpn));
	if (!received) return;
	tsan.acquire(order_of(peer_qpn));
	tsan.acquire(order_of_shared_queues());
}

int ordered_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
	posted(qp->qp_num);
	return unordered.post_send.load(std::memory_order_relaxed)(qp, wr, bad);
}

int ordered_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
	posted(qp->qp_num);
	return unordered.post_recv.load(std::memory_order_relaxed)(qp, wr, bad);
}

int ordered_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
	ThreadSanitizer::found()->release(order_of_shared_queues());
	return unordered.post_srq_recv.load(std::memory_order_relaxed)(srq, wr, bad);
}

int ordered_poll_cq(ibv_cq* cq, int count, ibv_wc* wc) noexcept {
	const int taken = unordered.poll_cq.load(std::memory_order_relaxed)(cq, count, wc);
	for (int i = 0; i < taken; ++i) polled(wc[i].qp_num, wc[i].src_qp, wc[i].opcode & IBV_WC_RECV);
	return taken;
}

int ordered_complete_post(ibv_qp_ex* qp) noexcept {
	posted(qp->qp_base.qp_num);
	return unordered.complete_post.load(std::memory_order_relaxed)(qp);
}

void polled_current(ibv_cq_ex* cq) {
	const queues::Completion& c = SoftCq::of(cq).current;
	polled(c.qpn, c.source_qp, static_cast<unsigned>(c.opcode) & IBV_WC_RECV);
}

int ordered_start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) noexcept {
	const int error = unordered.start_poll.load(std::memory_order_relaxed)(cq, attributes);
	if (error == 0) polled_current(cq);
	return error;
}

int ordered_next_poll(ibv_cq_ex* cq) noexcept {
	const int error = unordered.next_poll.load(std::memory_order_relaxed)(cq);
	if (error == 0) polled_current(cq);
	return error;
}

}  // namespace

void order_data_path(ibv_context_ops& ops) {
	if (!ThreadSanitizer::found()) return;
	replace(unordered.post_send, ops.post_send, ordered_post_send);
	replace(unordered.post_recv, ops.post_recv, ordered_post_recv);
	replace(unordered.post_srq_recv, ops.post_srq_recv, ordered_post_srq_recv);
	replace(unordered.poll_cq, ops.poll_cq, ordered_poll_cq);
}

void order_extended_post(SoftQp& sqp) {
	if (ThreadSanitizer::found()) replace(unordered.complete_post, sqp.public_qp.wr_complete, ordered_complete_post);
}

void order_extended_poll(SoftCq& cq) {
	if (!ThreadSanitizer::found()) return;
	replace(unordered.start_poll, cq.public_cq.start_poll, ordered_start_poll);
	replace(unordered.next_poll, cq.public_cq.next_poll, ordered_next_poll);
}

}  // namespace verbena::verbs
