// SPDX-License-Identifier: Apache-2.0
// The book's receives, and the polls that end requests.
#include <algorithm>
#include <cerrno>
#include <cinttypes>

#include <infiniband/verbs.h>

#include "nic/rules/book.h"
#include "nic/rules/digest.h"
#include "nic/rules/names.h"
#include "nic/rules/segments.h"

namespace verbena::rules {
namespace {

using queues::Segment;

constexpr std::uint32_t grh_bytes = 40;

}  // namespace

std::deque<OpenReceive>* Book::receives_of(Handle queue) {
	if (const auto srq = shared_queues_.find(queue); srq != shared_queues_.end()) return &srq->second.receives;
	QueuePair* const qp = find_queue_pair(queue);
	return qp ? &qp->receives : nullptr;
}

template <class Visit> void Book::visit_receives(Visit&& visit) {
	for (auto& [handle, qp] : queue_pairs_)
		for (OpenReceive& receive : qp.receives) visit(receive);
	for (auto& [handle, srq] : shared_queues_)
		for (OpenReceive& receive : srq.receives) visit(receive);
}

void Book::forget_digests(const std::vector<Segment>& segments) {
	visit_receives([&](OpenReceive& receive) {
		if (receive.digest && share_bytes(receive.segments, segments)) receive.digest.reset();
	});
}

bool Book::device_may_change(const std::vector<Segment>& segments) {
	bool may = std::ranges::any_of(
		open_writes_, [&](const auto& each) { return lie_in(segments, each.second.address, each.second.length); });
	for (const auto& [handle, qp] : queue_pairs_)
		for (const OpenSend& send : qp.sends) may = may || (send.reads() && share_bytes(send.segments, segments));
	visit_receives(
		[&](const OpenReceive& receive) { may = may || (receive.filled && share_bytes(receive.segments, segments)); });
	return may;
}

std::deque<OpenReceive>* Book::receives_of_number(std::uint32_t qpn) {
	const QueuePair* const qp = find_by_number(qpn);
	return qp ? receives_of(qp->facts.srq ? qp->facts.srq : qp->handle) : nullptr;
}

void Book::fill(OpenReceive& receive) {
	receive.filled = true;
	receive.digest.reset();
	forget_digests(receive.segments);
}

void Book::receive_has_completed(std::uint32_t qpn, std::uint64_t wr_id) {
	const std::lock_guard lock(mutex_);
	std::deque<OpenReceive>* const receives = receives_of_number(qpn);
	if (!receives) return;
	const auto found = std::ranges::find_if(
		*receives, [&](const OpenReceive& each) { return !each.completed && each.wr_id == wr_id; });
	if (found == receives->end()) return;
	found->completed = true;
	if (!found->filled) fill(*found);
}

void Book::receive_is_filled(std::uint32_t qpn, std::uint64_t wr_id, std::span<const Segment> segments) {
	const std::lock_guard lock(mutex_);
	std::deque<OpenReceive>* const receives = receives_of_number(qpn);
	if (!receives) return;
	const auto same = [](const Segment& a, const Segment& b) { return a.address == b.address && a.length == b.length; };
	const auto found = std::ranges::find_if(*receives, [&](const OpenReceive& each) {
		return !each.filled && each.wr_id == wr_id && std::ranges::equal(each.segments, segments, same);
	});
	if (found == receives->end()) return;
	const auto digest = found->digest ? digest_of(found->segments) : std::nullopt;
	if (digest && *digest != *found->digest)
		findings_.report(Rule::recv_touched, found->caller.site,
			text("the program has changed the memory of the receive with wr_id %" PRIu64
				 " on QP 0x%x between its post and the arrival of the message",
				wr_id, qpn),
			{found->segments.empty() ? Note{} : registered_note(found->segments[0].lkey)});
	fill(*found);
}

// A variable of a function that has returned lies below the frame of the caller: stacks grow down.
void Book::check_stack(const std::vector<Segment>& segments, const Caller& posted, const Caller& now) {
	if (!pthread_equal(posted.thread, now.thread)) return;
	const auto [lowest, highest] = stack_of_thread();
	// Not on the stack of a coroutine.
	if (now.frame < lowest || now.frame >= highest || posted.frame < lowest || posted.frame >= highest) return;
	for (const Segment& segment : segments)
		if (segment.length && segment.address >= posted.frame && segment.address < now.frame)
			return findings_.report(Rule::stack_buffer_in_flight, posted.site,
				text("the request uses the stack of a function that has returned before its completion was polled "
					 "(%u bytes at 0x%" PRIx64 ", and the stack ends at 0x%zx now)",
					segment.length, segment.address, now.frame),
				{{"the completion was polled here", now.site}});
}

void Book::check_receive(Handle queue, const OpenReceive& next) {
	for (std::size_t i = 0; i < next.segments.size(); ++i)
		for (std::size_t j = 0; j < i; ++j)
			if (overlap(next.segments[i], next.segments[j]))
				findings_.report(Rule::sge_overlap_one_wr, next.caller.site,
					text("segments %zu and %zu of the receive with wr_id %" PRIu64 " overlap", j, i, next.wr_id));
	const QueuePair* const qp = find_queue_pair(queue);
	if (!qp) return;
	if (qp->facts.type == IBV_QPT_UD && sum_of(next.segments) <= grh_bytes)
		findings_.report(Rule::ud_grh_missing, next.caller.site,
			text("the receive with wr_id %" PRIu64 " on the UD queue pair 0x%x has %" PRIu64
				 " bytes, which hold no datagram",
				next.wr_id, qp->facts.qpn, sum_of(next.segments)));
	if (qp->broken)
		findings_.report(Rule::post_in_err, next.caller.site,
			text("the receive with wr_id %" PRIu64 " was posted to QP 0x%x, which is in IBV_QPS_ERR", next.wr_id,
				qp->facts.qpn));
}

std::uint32_t Book::room_for_receives(Handle queue) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_queue_pair(queue);
	if (!qp || qp->facts.srq) return UINT32_MAX;
	const std::size_t open = qp->receives.size();
	return open < qp->facts.receives_max ? qp->facts.receives_max - static_cast<std::uint32_t>(open) : 0;
}

void Book::receives_posted(Handle queue, std::span<const ReceiveFacts> requests, const Caller& caller) {
	const std::lock_guard lock(mutex_);
	std::deque<OpenReceive>* const receives = receives_of(queue);
	if (!receives) return;
	QueuePair* const qp = find_queue_pair(queue);
	if (qp) qp->receives_posted += requests.size();
	for (const ReceiveFacts& facts : requests) {
		OpenReceive next{.wr_id = facts.wr_id,
			.segments = {facts.segments.begin(), facts.segments.end()},
			.caller = caller,
			.digest = {},
			.shared_until = {}};
		check_receive(queue, next);
		check_mappings(next.segments, text("the receive with wr_id %" PRIu64 " uses", next.wr_id));
		if (!device_may_change(next.segments)) next.digest = digest_of(next.segments);
		lend(next.segments);
		next.use = watch(DeviceThreads::Access::writes, next.segments, caller.site);
		receives->push_back(std::move(next));
		if (!qp) continue;
		count_open(qp->facts.receive_cq, 1);
		check_overrun(*qp, qp->facts.receive_cq, caller);
	}
}

void Book::receives_withdrawn(Handle queue, std::size_t count, const Caller& caller) {
	const std::lock_guard lock(mutex_);
	std::deque<OpenReceive>* const receives = receives_of(queue);
	QueuePair* const qp = find_queue_pair(queue);
	if (!receives) return;
	withdraw(*receives, count, caller.thread, [&](const OpenReceive& receive) {
		give_back(receive.segments);
		if (!qp) return;
		--qp->receives_posted;
		count_open(qp->facts.receive_cq, -1);
	});
}

void Book::receive_refused(Handle queue, const ReceiveFacts& facts, int error, Site site) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_queue_pair(queue);
	if (!qp || error == ENOMEM) return;
	if (qp->facts.srq)
		findings_.report(Rule::recv_on_srq_qp, site,
			text("ibv_post_recv() was called for QP 0x%x, which has a shared receive queue, and refused",
				qp->facts.qpn));
	else if (qp->state == IBV_QPS_RESET)
		findings_.report(Rule::post_in_wrong_state, site,
			text("the receive with wr_id %" PRIu64 " was posted to QP 0x%x in IBV_QPS_RESET and was refused",
				facts.wr_id, qp->facts.qpn));
}

// `index`: of the completion, in the order of its queue, which had received `produced` when the
// program polled it.
void Book::complete_receive(QueuePair& qp, const queues::Completion& completion, std::uint32_t index,
	std::uint32_t produced, const Caller& now) {
	std::deque<OpenReceive>* const receives = receives_of(qp.facts.srq ? qp.facts.srq : qp.handle);
	if (!receives) return;
	const bool failed = completion.status != queues::Status::success;
	if (failed) qp.broken = true;
	// Requests of a shared receive queue complete in any order.
	const auto found = std::ranges::find(*receives, completion.wr_id, &OpenReceive::wr_id);
	if (found == receives->end()) return;
	const OpenReceive receive = std::move(*found);
	receives->erase(found);
	give_back(receive.segments);
	if (!qp.facts.srq) count_open(qp.facts.receive_cq, -1);
	check_stack(receive.segments, receive.caller, now);
	if (failed || completion.length == 0) return;
	if (receive.shared_until && static_cast<std::int32_t>(*receive.shared_until - index) > 0)
		findings_.report(Rule::recv_overlap, receive.caller.site,
			text("the message of the receive with wr_id %" PRIu64
				 " has overwritten an earlier one in the same memory before the completion of that one was polled",
				receive.wr_id),
			{{"the completion was polled here", now.site}});
	for (OpenReceive& other : *receives)
		if (share_bytes(receive.segments, other.segments)) other.shared_until = produced;
}

// The opcode of a completion with an error is not valid (ibv_poll_cq(3)).
bool Book::is_receive(QueuePair& qp, const queues::Completion& completion) {
	const bool says_so = static_cast<unsigned>(completion.opcode) & IBV_WC_RECV;
	if (completion.status == queues::Status::success) return says_so;
	const std::deque<OpenReceive>* const receives = receives_of(qp.facts.srq ? qp.facts.srq : qp.handle);
	const bool is_open =
		receives && std::ranges::find(*receives, completion.wr_id, &OpenReceive::wr_id) != receives->end();
	return is_open && (says_so || std::ranges::find(qp.sends, completion.wr_id, &OpenSend::wr_id) == qp.sends.end());
}

void Book::polled(Handle handle, std::span<const queues::Completion> completions, Counts counts, const Caller& caller,
	Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	if (const auto cq = completion_queues_.find(handle); cq != completion_queues_.end()) {
		cq->second.polled_at = caller.site;
		if (!completions.empty()) cq->second.empty_since = 0;
		else if (cq->second.empty_since == 0) cq->second.empty_since = now;
	}
	std::uint32_t index = counts.taken - static_cast<std::uint32_t>(completions.size());
	for (const queues::Completion& completion : completions) {
		const auto number = numbers_.find(completion.qpn);
		if (number != numbers_.end()) {
			QueuePair& qp = queue_pairs_.at(number->second);
			if (is_receive(qp, completion)) complete_receive(qp, completion, index, counts.produced, caller);
			else complete_sends(qp, completion, caller);
		}
		++index;
	}
}

}  // namespace verbena::rules
