// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/checked_path.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "nic/engine/boundary.h"
#include "nic/verbs/checked.h"
#include "nic/verbs/decorate.h"
#include "nic/verbs/turns.h"

namespace verbena::verbs {
namespace {

using rules::Caller;
using rules::ReceiveFacts;
using rules::SendFacts;

// All objects have the same.
constinit ReplacedFunctions unchecked{};

// ibv_wr_*() and ibv_start_poll() need none: they hold the queue's own lock. If a queue is used in
// both ways at a time, the order of the notes is not certain.
constinit Turns posts, polls;

template <class Act> void quietly(Act&& act) noexcept {
	const int kept = errno;
	engine::attempt(act);
	errno = kept;
}

Caller caller_of(const void* return_address, const void* frame) {
	return {site_of_return(return_address, frame), reinterpret_cast<std::uintptr_t>(frame), pthread_self()};
}

// Empty if there are more than the queue takes: the NIC will refuse the request.
std::span<const queues::Segment> segments_of(const ibv_sge* list, int count, std::uint32_t count_max) {
	if (count <= 0 || static_cast<std::uint32_t>(count) > count_max) return {};
	return {reinterpret_cast<const queues::Segment*>(list), static_cast<std::size_t>(count)};
}

SendFacts facts_of(const SoftQp& sqp, const ibv_send_wr& wr) {
	SendFacts facts{.wr_id = wr.wr_id,
		.segments = segments_of(wr.sg_list, wr.num_sge, sqp.send_segments_max),
		.opcode = static_cast<queues::SendOpcode>(wr.opcode),
		.flags = static_cast<std::uint8_t>(wr.send_flags)};
	if (sqp.qp->type == transport::QpType::ud) {
		facts.address_handle = wr.wr.ud.ah;
	} else if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		facts.remote_address = wr.wr.atomic.remote_addr;
		facts.rkey = wr.wr.atomic.rkey;
	} else if (wr.opcode == IBV_WR_RDMA_READ || wr.opcode == IBV_WR_RDMA_WRITE ||
		wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		facts.remote_address = wr.wr.rdma.remote_addr;
		facts.rkey = wr.wr.rdma.rkey;
	}
	return facts;
}

// Refuses all of a chain, for a reason that was reported.
template <class Request> int refuse(Request* wr, Request** bad, const char* verb) {
	*bad = wr;
	return log::refuse(EINVAL, "%s: refused by the checker", verb);
}

// The request of the chain for which there is no room, or null; `last` is the one before it.
template <class Request> Request* first_without_room(std::uint32_t room, Request* wr, Request*& last) {
	last = nullptr;
	for (; wr && room; wr = wr->next, --room) last = wr;
	return wr;
}

template <class Request> std::size_t count_between(const Request* wr, const Request* end) {
	std::size_t count = 0;
	for (; wr && wr != end; wr = wr->next) ++count;
	return count;
}

// Posts the requests for which there is room, and refuses the next one. note(end) comes first,
// because another thread may poll the completion of a request before its post returns. answer(bad,
// count): request `bad` was refused, and the last `count` of those that were noted.
template <class Queue, class Request, class Note, class Answer>
int post_noted(std::atomic<int (*)(Queue*, Request*, Request**)>& function, Queue* queue, Request* wr, Request** bad,
	std::uint32_t room, const char* verb, Note&& note, Answer&& answer) noexcept {
	Request* last = nullptr;
	Request* const cut = first_without_room(room, wr, last);
	bool noted = false;
	quietly([&] {
		note(cut);
		noted = true;
	});
	int error = 0;
	if (cut != wr || !wr) {
		if (cut) last->next = nullptr;
		error = function.load(std::memory_order_relaxed)(queue, wr, bad);
		if (cut) last->next = cut;
	}
	if (!error && cut) {
		*bad = cut;
		error = log::refuse(ENOMEM, "%s: the queue is full until a completion has been polled", verb);
	}
	if (error && wr) quietly([&] { answer(*bad, error, noted ? count_between(*bad, cut) : 0); });
	return error;
}

void note_sends(ibv_qp* qp, const ibv_send_wr* wr, const ibv_send_wr* end, const Caller& caller) {
	const SoftQp& sqp = SoftQp::of(qp);
	std::vector<SendFacts> posted;
	for (; wr != end; wr = wr->next) posted.push_back(facts_of(sqp, *wr));
	checked()->sends_posted(qp, posted, caller);
}

// The completions that the program could poll.
std::uint32_t unpolled(const ibv_qp* qp) { return SoftCq::of(qp->send_cq).queue->unpolled(); }

int checked_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
	const void* const from = __builtin_return_address(0);
	const void* const frame = __builtin_frame_address(0);
	Caller caller;
	bool refused = false, alone = true;
	const bool owned = SoftPd::of(qp->pd).thread != nullptr;
	quietly([&] {
		rules::Book& book = *checked();
		caller = caller_of(from, frame);
		refused = book.is_ghost(qp, "ibv_post_send", caller.site) || book.is_in_extended_post(qp, caller.site);
		if (owned && !refused) alone = book.enters(qp);
	});
	if (refused) return refuse(wr, bad, "ibv_post_send");
	const std::lock_guard turn(posts.of(qp));
	std::uint32_t room = UINT32_MAX;
	quietly([&] { room = checked()->room(qp); });
	const int error = post_noted(
		unchecked.post_send, qp, wr, bad, room, "ibv_post_send",
		[&](const ibv_send_wr* end) { note_sends(qp, wr, end, caller); },
		[&](const ibv_send_wr* first_refused, int reason, std::size_t count) {
			checked()->sends_withdrawn(qp, count, caller);
			const SendFacts facts = facts_of(SoftQp::of(qp), *first_refused);
			checked()->send_refused(qp, facts, reason, unpolled(qp), caller.site);
		});
	if (owned) quietly([&] { checked()->leaves(qp, alone, caller.site); });
	return error;
}

const queues::ReceiveQueue& receive_queue_of(ibv_qp* qp) { return *SoftQp::of(qp).qp->receive_queue; }
const queues::ReceiveQueue& receive_queue_of(ibv_srq* srq) { return *SoftSrq::of(srq).queue; }

template <class Queue>
int post_receives(std::atomic<int (*)(Queue*, ibv_recv_wr*, ibv_recv_wr**)>& function, Queue* queue, ibv_recv_wr* wr,
	ibv_recv_wr** bad, const char* verb, const void* from, const void* frame) noexcept {
	Caller caller;
	std::uint32_t room = UINT32_MAX;
	bool ghost = false;
	quietly([&] {
		caller = caller_of(from, frame);
		ghost = checked()->is_ghost(queue, verb, caller.site);
	});
	if (ghost) return refuse(wr, bad, verb);
	const std::lock_guard turn(posts.of(queue));
	quietly([&] { room = checked()->room_for_receives(queue); });
	const auto facts_of = [queue](const ibv_recv_wr& each) {
		return ReceiveFacts{
			each.wr_id, segments_of(each.sg_list, each.num_sge, receive_queue_of(queue).segments_max())};
	};
	return post_noted(
		function, queue, wr, bad, room, verb,
		[&](const ibv_recv_wr* end) {
			std::vector<ReceiveFacts> posted;
			for (const ibv_recv_wr* each = wr; each != end; each = each->next) posted.push_back(facts_of(*each));
			checked()->receives_posted(queue, posted, caller);
		},
		[&](const ibv_recv_wr* refused, int error, std::size_t count) {
			checked()->receives_withdrawn(queue, count, caller);
			checked()->receive_refused(queue, facts_of(*refused), error, caller.site);
		});
}

int checked_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
	return post_receives(
		unchecked.post_recv, qp, wr, bad, "ibv_post_recv", __builtin_return_address(0), __builtin_frame_address(0));
}

int checked_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
	return post_receives(unchecked.post_srq_recv, srq, wr, bad, "ibv_post_srq_recv", __builtin_return_address(0),
		__builtin_frame_address(0));
}

queues::Completion completion_of(const ibv_wc& wc) {
	return {.wr_id = wc.wr_id,
		.length = wc.byte_len,
		.immediate = 0,
		.qpn = wc.qp_num,
		.source_qp = wc.src_qp,
		.status = static_cast<queues::Status>(wc.status),
		.opcode = static_cast<queues::Completed>(wc.opcode),
		.flags = 0,
		.sl = 0,
		.reserved = 0};
}

int checked_poll_cq(ibv_cq* cq, int count, ibv_wc* wc) noexcept {
	const void* const from = __builtin_return_address(0);
	const void* const frame = __builtin_frame_address(0);
	bool ghost = false;
	quietly([&] { ghost = checked()->is_ghost(cq, "ibv_poll_cq", site_of_return(from, frame)); });
	if (ghost) return -1;
	const std::lock_guard turn(polls.of(cq));
	const int taken = unchecked.poll_cq.load(std::memory_order_relaxed)(cq, count, wc);
	quietly([&] {
		const Caller caller = caller_of(from, frame);
		const Nanoseconds now = monotonic_now();
		const queues::CompletionQueue& queue = *SoftCq::of(cq).queue;
		rules::Book::Counts counts{.produced = queue.produced(), .taken = queue.taken()};
		counts.taken -= static_cast<std::uint32_t>(std::max(taken, 0));
		std::array<queues::Completion, 16> some;
		int done = 0;
		do {
			const int part = std::min<int>(std::max(taken, 0) - done, some.size());
			for (int i = 0; i < part; ++i) some[static_cast<std::size_t>(i)] = completion_of(wc[done + i]);
			counts.taken += static_cast<std::uint32_t>(part);
			checked()->polled(cq, {some.data(), static_cast<std::size_t>(part)}, counts, caller, now);
			done += part;
		} while (done < taken);
	});
	return taken;
}

int checked_req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
	const void* const from = __builtin_return_address(0);
	const void* const frame = __builtin_frame_address(0);
	const std::uint32_t produced = SoftCq::of(cq).queue->produced();
	const int error = unchecked.req_notify_cq.load(std::memory_order_relaxed)(cq, solicited_only);
	if (!error) quietly([&] { checked()->armed(cq, produced, site_of_return(from, frame)); });
	return error;
}

void checked_start_post(ibv_qp_ex* qp) noexcept {
	unchecked.start_post.load(std::memory_order_relaxed)(qp);
	quietly([&] { checked()->begins_extended_post(&qp->qp_base); });
}

void checked_abort_post(ibv_qp_ex* qp) noexcept {
	quietly([&] { checked()->ends_extended_post(&qp->qp_base); });
	unchecked.abort_post.load(std::memory_order_relaxed)(qp);
}

// The requests since ibv_wr_start.
std::vector<SendFacts> facts_of_build(SoftQp& sqp) {
	transport::QueuePair& qp = *sqp.qp;
	std::vector<SendFacts> posted;
	for (std::uint32_t at = qp.sq_head.load(std::memory_order_relaxed); at != sqp.build.head; ++at) {
		queues::SendWqe& wqe = qp.wqe(at);
		SendFacts facts{.wr_id = wqe.wr_id, .opcode = wqe.opcode, .flags = wqe.flags};
		if (!wqe.has(queues::send_inline)) facts.segments = {wqe.segments(), wqe.segment_count};
		if (qp.type != transport::QpType::ud &&
			(wqe.reads() || wqe.opcode == queues::SendOpcode::rdma_write ||
				wqe.opcode == queues::SendOpcode::rdma_write_imm)) {
			facts.remote_address = wqe.rdma.address;
			facts.rkey = wqe.rdma.rkey;
		}
		posted.push_back(facts);
	}
	return posted;
}

int checked_complete_post(ibv_qp_ex* public_qp) noexcept {
	const void* const from = __builtin_return_address(0);
	const void* const frame = __builtin_frame_address(0);
	SoftQp& sqp = SoftQp::of(public_qp);
	ibv_qp* const qp = &public_qp->qp_base;
	quietly([&] {
		rules::Book& book = *checked();
		const Caller caller = caller_of(from, frame);
		const std::vector<SendFacts> posted = facts_of_build(sqp);
		book.ends_extended_post(qp);
		if (!sqp.build.error && book.room(qp) < posted.size()) sqp.build.error = ENOMEM;
		if (!sqp.build.error) book.sends_posted(qp, posted, caller);
		else if (!posted.empty()) book.send_refused(qp, posted.back(), sqp.build.error, unpolled(qp), caller.site);
	});
	return unchecked.complete_post.load(std::memory_order_relaxed)(public_qp);
}

void note_current(ibv_cq_ex* public_cq, int error, const void* from, const void* frame) {
	quietly([&] {
		const SoftCq& cq = SoftCq::of(public_cq);
		const std::size_t count = error == 0 ? 1 : 0;
		checked()->polled(ibv_cq_ex_to_cq(public_cq), {&cq.current, count}, {cq.queue->produced(), cq.queue->taken()},
			caller_of(from, frame), monotonic_now());
	});
}

int checked_start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attributes) noexcept {
	const int error = unchecked.start_poll.load(std::memory_order_relaxed)(cq, attributes);
	note_current(cq, error, __builtin_return_address(0), __builtin_frame_address(0));
	return error;
}

int checked_next_poll(ibv_cq_ex* cq) noexcept {
	const int error = unchecked.next_poll.load(std::memory_order_relaxed)(cq);
	if (error == 0) note_current(cq, error, __builtin_return_address(0), __builtin_frame_address(0));
	return error;
}

}  // namespace

void renew_turns_after_fork() {
	new (&posts) Turns;
	new (&polls) Turns;
}

void check_data_path(ibv_context_ops& ops) {
	if (!checked()) return;
	replace(unchecked.post_send, ops.post_send, checked_post_send);
	replace(unchecked.post_recv, ops.post_recv, checked_post_recv);
	replace(unchecked.post_srq_recv, ops.post_srq_recv, checked_post_srq_recv);
	replace(unchecked.poll_cq, ops.poll_cq, checked_poll_cq);
	replace(unchecked.req_notify_cq, ops.req_notify_cq, checked_req_notify_cq);
}

void check_extended_post(SoftQp& sqp) {
	if (!checked()) return;
	ibv_qp_ex& q = sqp.public_qp;
	replace(unchecked.start_post, q.wr_start, checked_start_post);
	replace(unchecked.abort_post, q.wr_abort, checked_abort_post);
	replace(unchecked.complete_post, q.wr_complete, checked_complete_post);
}

void check_extended_poll(SoftCq& cq) {
	if (!checked()) return;
	replace(unchecked.start_poll, cq.public_cq.start_poll, checked_start_poll);
	replace(unchecked.next_poll, cq.public_cq.next_poll, checked_next_poll);
}

}  // namespace verbena::verbs
