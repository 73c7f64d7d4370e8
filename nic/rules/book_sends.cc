// SPDX-License-Identifier: Apache-2.0
// The book's sends: those that are open on each queue pair, and the memory that they use.
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
using queues::SendOpcode;

bool is_one_aligned_word(const std::vector<Segment>& segments) {
	return segments.size() == 1 && segments[0].length <= 8 && segments[0].address % 8 == 0;
}

// Whether an open READ or atomic will put its result into this memory. A fenced SEND may forward
// it.
bool reads_into(const QueuePair& qp, const std::vector<Segment>& segments) {
	return std::ranges::any_of(
		qp.sends, [&](const OpenSend& each) { return each.reads() && share_bytes(each.segments, segments); });
}

// A post that found no place in the send queue.
GivenUp given_up(const QueuePair& qp, const std::string& request, std::uint32_t unpolled, Site site) {
	std::string what = text(
		"%s found no place in the send queue of QP 0x%x, in which %zu requests are open and which "
		"was made for %u, and the program has given up",
		request.c_str(), qp.facts.qpn, qp.sends.size(), qp.facts.send_requests_max);
	if (unpolled) what += text(", although its completion queue holds %u completions that were not polled", unpolled);
	return {unpolled ? Rule::send_completion_means_slot : Rule::sq_depth_by_luck, std::move(what), site,
		qp.sends.front().caller.site};
}

}  // namespace

std::uint32_t OpenSend::length() const { return static_cast<std::uint32_t>(sum_of(segments)); }

std::uint32_t Book::room(Handle handle) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_queue_pair(handle);
	if (!qp) return UINT32_MAX;
	const std::size_t open = qp->sends.size();
	return open < qp->facts.send_requests_max ? qp->facts.send_requests_max - static_cast<std::uint32_t>(open) : 0;
}

void Book::check_send(QueuePair& qp, const OpenSend& next, std::uint8_t flags, const Caller& caller) {
	if (next.is_atomic() && (next.remote_address % 8 || next.length() != 8))
		findings_.report(Rule::atomic_unaligned, caller.site,
			text("%s on QP 0x%x has the remote address 0x%" PRIx64 " and %u bytes for the result",
				request_name(next.opcode, next.wr_id).c_str(), qp.facts.qpn, next.remote_address, next.length()));
	if (next.opcode == SendOpcode::rdma_read)
		for (std::size_t i = 0; i < next.segments.size(); ++i)
			for (std::size_t j = 0; j < i; ++j)
				if (overlap(next.segments[i], next.segments[j]))
					findings_.report(Rule::sge_overlap_one_wr, caller.site,
						text(
							"segments %zu and %zu of %s overlap", j, i, request_name(next.opcode, next.wr_id).c_str()));
	if (qp.facts.type == IBV_QPT_UD && next.length() > qp.facts.mtu)
		findings_.report(Rule::max_msg_implicit, caller.site,
			text("%s on the UD queue pair 0x%x has %u bytes, and the MTU is %u",
				request_name(next.opcode, next.wr_id).c_str(), qp.facts.qpn, next.length(), qp.facts.mtu));
	if (qp.broken)
		findings_.report(Rule::post_in_err, caller.site,
			text("%s was posted to QP 0x%x, which is in IBV_QPS_ERR", request_name(next.opcode, next.wr_id).c_str(),
				qp.facts.qpn));
	if (next.is_atomic() && !has_asked_device())
		findings_.report(Rule::feature_unqueried, caller.site,
			text("%s was posted to QP 0x%x, and the program has not called ibv_query_device()",
				request_name(next.opcode, next.wr_id).c_str(), qp.facts.qpn));
	check_read_sink(qp, next, caller);
	check_order(qp, next, flags, caller);
	check_flag(qp, next, caller);
}

void Book::check_read_sink(const QueuePair& qp, const OpenSend& next, const Caller& caller) {
	if (!profile_.read_sink_needs_remote_write || next.opcode != SendOpcode::rdma_read) return;
	for (const Segment& segment : next.segments) {
		const auto mr = lkeys_.find(segment.lkey);
		if (mr == lkeys_.end() || regions_.at(mr->second).facts.access & IBV_ACCESS_REMOTE_WRITE) continue;
		return findings_.report(Rule::iwarp_read_sink, caller.site,
			text("%s on QP 0x%x has a target without IBV_ACCESS_REMOTE_WRITE",
				request_name(next.opcode, next.wr_id).c_str(), qp.facts.qpn),
			{registered_note(segment.lkey)});
	}
}

void Book::check_lkeys(QueuePair& qp, const OpenSend& next, Site site) {
	for (const Segment& segment : next.segments) {
		if (!segment.length || lkeys_.contains(segment.lkey)) continue;
		const auto& earlier = qp.strange_inline;
		if (next.is_inline) qp.strange_inline = {segment.lkey, next.opcode, next.wr_id, site};
		else if (earlier && earlier->lkey == segment.lkey)
			findings_.report(Rule::inline_lkey_trust, site,
				text("%s on QP 0x%x has the lkey 0x%x, which no region has, and is not inline as an earlier one was",
					request_name(next.opcode, next.wr_id).c_str(), qp.facts.qpn, segment.lkey),
				{{request_name(earlier->opcode, earlier->wr_id) + ", inline, was posted here", earlier->site}});
	}
}

void Book::check_overrun(const QueuePair& qp, Handle handle, const Caller& caller) {
	const auto found = completion_queues_.find(handle);
	if (found == completion_queues_.end()) return;
	const CompletionQueue& cq = found->second;
	if (cq.open <= cq.entries) return;
	findings_.report(Rule::cq_too_small, caller.site,
		text("%u requests can complete into a completion queue of %u entries, the last one on QP 0x%x", cq.open,
			cq.entries, qp.facts.qpn),
		{{"the completion queue was made here", cq.made}});
}

void Book::sends_posted(Handle handle, std::span<const SendFacts> requests, const Caller& caller) {
	const std::lock_guard lock(mutex_);
	QueuePair* const qp = find_queue_pair(handle);
	if (!qp || requests.empty()) return;
	qp->failed.reset();
	qp->gave_up.reset();
	note_activity(*qp);
	for (const SendFacts& facts : requests) {
		const bool is_inline = facts.flags & queues::send_inline;
		OpenSend next{.wr_id = facts.wr_id,
			.remote_address = facts.remote_address,
			.rkey = facts.rkey,
			.address_handle = facts.address_handle,
			.segments = {facts.segments.begin(), facts.segments.end()},
			.digest = {},
			.caller = caller,
			.opcode = facts.opcode,
			.signaled = qp->facts.signal_all || facts.flags & queues::send_signaled,
			.is_inline = is_inline};
		check_send(*qp, next, facts.flags, caller);
		check_lkeys(*qp, next, caller.site);
		if (!is_inline) check_mappings(next.segments, request_name(next.opcode, next.wr_id) + " uses");
		// A datagram is sent once, so a program may take the peer's answer as the end of an
		// unsignaled one.
		if (!is_inline && !next.reads() && (next.signaled || qp->facts.type != IBV_QPT_UD) &&
			!reads_into(*qp, next.segments))
			next.digest = digest_of(next.segments);
		if (next.digest && !is_one_aligned_word(next.segments))
			next.use = watch(DeviceThreads::Access::reads, next.segments, caller.site);
		if (next.signaled) {
			count_open(qp->facts.send_cq, 1);
			check_overrun(*qp, qp->facts.send_cq, caller);
		}
		if (next.reads()) {
			lend(next.segments);
			next.use = watch(DeviceThreads::Access::writes, next.segments, caller.site);
			forget_digests(next.segments);
			for (OpenSend& earlier : qp->sends)
				if (share_bytes(earlier.segments, next.segments)) earlier.digest.reset();
		}
		qp->sends.push_back(std::move(next));
	}
}

void Book::sends_withdrawn(Handle handle, std::size_t count, const Caller& caller) {
	const std::lock_guard lock(mutex_);
	QueuePair* const qp = find_queue_pair(handle);
	if (!qp) return;
	withdraw(qp->sends, count, caller.thread, [&](const OpenSend& send) {
		if (send.signaled) count_open(qp->facts.send_cq, -1);
		if (send.reads()) give_back(send.segments);
	});
}

void Book::send_refused(Handle handle, const SendFacts& facts, int error, std::uint32_t unpolled, Site site) {
	const std::lock_guard lock(mutex_);
	QueuePair* const qp = find_queue_pair(handle);
	if (!qp) return;
	note_activity(*qp);
	const std::string name = request_name(facts.opcode, facts.wr_id);
	std::uint64_t length = 0;
	for (const Segment& segment : facts.segments) length += segment.length;
	if (facts.flags & queues::send_inline &&
		(facts.opcode == SendOpcode::rdma_read || facts.opcode == SendOpcode::compare_swap ||
			facts.opcode == SendOpcode::fetch_add))
		findings_.report(Rule::inline_bad_opcode, site,
			text("%s on QP 0x%x has IBV_SEND_INLINE and was refused", name.c_str(), qp->facts.qpn));
	else if (facts.flags & queues::send_inline && length > qp->facts.inline_max)
		findings_.report(Rule::inline_too_long, site,
			text("%s on QP 0x%x has %" PRIu64 " bytes of inline data, and max_inline_data is %u", name.c_str(),
				qp->facts.qpn, length, qp->facts.inline_max));
	else if (qp->state < IBV_QPS_RTS)
		findings_.report(Rule::post_in_wrong_state, site,
			text("%s was posted to QP 0x%x before IBV_QPS_RTS and was refused", name.c_str(), qp->facts.qpn));
	else if (error == ENOMEM && !qp->sends.empty() &&
		std::ranges::none_of(qp->sends, [](const OpenSend& each) { return each.signaled; }))
		findings_.report(Rule::sq_unsignaled_full, site,
			text("the send queue of QP 0x%x is full for ever: none of its %zu requests is signaled, so no completion "
				 "can free a place",
				qp->facts.qpn, qp->sends.size()),
			{{"the oldest request was posted here", qp->sends.front().caller.site},
				{"the queue pair was made here", qp->made}});
	else if (error == ENOMEM && qp->sends.size() >= qp->facts.send_requests_max)
		qp->gave_up = given_up(*qp, name, unpolled, site);
	qp->failed = FailedPost{facts.wr_id, site, error};
}

// A program that polls or posts afterwards is right.
void Book::report_if_given_up(const QueuePair& qp) {
	if (qp.gave_up)
		findings_.report(qp.gave_up->rule, qp.gave_up->site, qp.gave_up->what,
			{{"the oldest open request was posted here", qp.gave_up->oldest},
				{"the queue pair was made here", qp.made}});
}

// The memory of a request at the moment when its completion is polled.
void Book::check_memory(const QueuePair& qp, const OpenSend& send, const Caller& now) {
	if (!send.is_inline) check_stack(send.segments, send.caller, now);
	if (!send.digest) return;
	const auto digest = digest_of(send.segments);
	const std::string name = request_name(send.opcode, send.wr_id);
	const Note registered = send.segments.empty() ? Note{} : registered_note(send.segments[0].lkey);
	if (!digest)
		findings_.report(Rule::send_buffer_freed, send.caller.site,
			text("memory of %s on QP 0x%x is not there any more when its completion is polled", name.c_str(),
				qp.facts.qpn),
			{registered, {"the completion was polled here", now.site}});
	else if (*digest != *send.digest && !is_one_aligned_word(send.segments))
		findings_.report(Rule::send_buffer_modified, send.caller.site,
			text("the %u bytes at 0x%" PRIx64 " of %s on QP 0x%x have changed between the post and the poll of its "
				 "completion",
				send.length(), send.segments[0].address, name.c_str(), qp.facts.qpn),
			{registered, {"the completion was polled here", now.site}});
}

void Book::complete_sends(QueuePair& qp, const queues::Completion& completion, const Caller& now) {
	const bool failed = completion.status != queues::Status::success;
	if (failed) qp.broken = true;
	qp.gave_up.reset();
	while (!qp.sends.empty()) {
		const OpenSend send = std::move(qp.sends.front());
		qp.sends.pop_front();
		if (send.reads()) give_back(send.segments);
		if (send.signaled) count_open(qp.facts.send_cq, -1);
		if (!failed) check_memory(qp, send, now);
		// A completion with an error belongs to a request that may be unsignaled.
		if (failed ? send.wr_id == completion.wr_id : send.signaled) return;
	}
}

}  // namespace verbena::rules
