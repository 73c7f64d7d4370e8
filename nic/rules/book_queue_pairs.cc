// The book's queue pairs: their states, and the sends that are open on them.
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

}  // namespace

std::uint32_t Book::OpenSend::length() const { return static_cast<std::uint32_t>(sum_of(segments)); }

// A program that asks for less afterwards is right.
void Book::queue_pair_refused(const QueuePairFacts& facts, int error, Site site) {
	const std::lock_guard lock(mutex_);
	refused_queue_pair_.emplace(
		text("ibv_create_qp() was refused (errno value %d) for max_send_wr %u, max_recv_wr %u and max_inline_data %u, "
			 "and the program has not asked for less",
			error, facts.send_requests_max, facts.receives_max, facts.inline_max),
		site);
}

void Book::queue_pair_made(Handle handle, const QueuePairFacts& facts, Site site) {
	const std::lock_guard lock(mutex_);
	refused_queue_pair_.reset();
	QueuePair& qp = queue_pairs_[handle];
	qp.handle = handle;
	qp.facts = facts;
	qp.made = site;
	numbers_[facts.qpn] = handle;
}

void Book::changed(Handle handle, const ChangeFacts& change, Site site) {
	const std::lock_guard lock(mutex_);
	QueuePair* const qp = find_queue_pair(handle);
	if (!qp) return;
	const std::uint32_t qpn = qp->facts.qpn;
	if (change.state) {
		if (qp->state == IBV_QPS_RESET && *change.state == IBV_QPS_RESET)
			findings_.report(Rule::reset_to_reset, site, text("QP 0x%x was in IBV_QPS_RESET already", qpn));
		qp->state = *change.state;
		qp->broken = qp->state == IBV_QPS_ERR;
		if (qp->state == IBV_QPS_RTS) {
			qp->connected = site;
			new_connections_ = new_connections_ || qp->facts.type == IBV_QPT_RC;
		}
		if (qp->state == IBV_QPS_RESET) forget_requests(*qp);
	}
	if (change.waits_for_ever || change.never_retries)
		findings_.report(
			Rule::timeout_zero, site, text("QP 0x%x has %s", qpn, change.waits_for_ever ? "timeout 0" : "retry_cnt 0"));
	if (change.routable_index)
		findings_.report(Rule::gid_index_0, site,
			text("QP 0x%x uses a link-local GID, and index %u of the table is routable", qpn, *change.routable_index));
	constexpr std::uint32_t example_key = 0x11111111;
	if (change.q_key == example_key)
		findings_.report(Rule::qkey_constant, site, text("QP 0x%x has the Q_Key 0x%x", qpn, example_key));
	if (change.first_psn) {
		constexpr std::size_t psns_max = 65536;
		if (first_psns_.size() >= psns_max) first_psns_.clear();
		const auto [known, fresh] = first_psns_.try_emplace(*change.first_psn, qpn, site);
		if (!fresh && known->second.first != qpn)
			findings_.report(Rule::psn_constant, site,
				text("QP 0x%x and QP 0x%x both begin with PSN %u", known->second.first, qpn, *change.first_psn),
				{{"the first one was given its PSN here", known->second.second}});
	}
}

void Book::change_without_grh(Handle handle, Site site) {
	const std::lock_guard lock(mutex_);
	if (const QueuePair* const qp = find_queue_pair(handle))
		findings_.report(Rule::no_grh, site,
			text("ibv_modify_qp() was refused for QP 0x%x, because ah_attr.is_global is 0", qp->facts.qpn));
}

bool Book::has_new_connections() {
	const std::lock_guard lock(mutex_);
	return new_connections_;
}

void Book::connections_are_known() {
	const std::lock_guard lock(mutex_);
	new_connections_ = false;
}

void Book::compare(std::uint32_t qpn, const ConnectionFacts& own, const ConnectionFacts& peer) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_by_number(qpn);
	if (!qp) return;
	const Site site = qp->connected ? qp->connected : qp->made;
	if (own.path_mtu != peer.path_mtu)
		findings_.report(Rule::mtu_not_negotiated, site,
			text("the path_mtu of QP 0x%x is %u bytes, and that of its peer, QP 0x%x of process %u, is %u", qpn,
				own.path_mtu, peer.qpn, peer.pid, peer.path_mtu));
	if (own.max_rd_atomic > peer.max_dest_rd_atomic)
		findings_.report(Rule::rd_atomic_mismatch, site,
			text("the max_rd_atomic of QP 0x%x is %u, and the max_dest_rd_atomic of its peer, QP 0x%x of process %u, "
				 "is %u",
				qpn, own.max_rd_atomic, peer.qpn, peer.pid, peer.max_dest_rd_atomic));
}

bool Book::enters(Handle handle) {
	const std::lock_guard lock(mutex_);
	QueuePair* const qp = find_queue_pair(handle);
	return !qp || ++qp->posters == 1;
}

void Book::leaves(Handle handle, bool alone, Site site) {
	const std::lock_guard lock(mutex_);
	QueuePair* const qp = find_queue_pair(handle);
	if (!qp) return;
	--qp->posters;
	if (!alone)
		findings_.report(Rule::thread_unsafe_td, site,
			text("two threads have posted to QP 0x%x at once, which has a thread domain", qp->facts.qpn),
			{{"the queue pair was made here", qp->made}});
}

// A segment with a wrong key may have any address.
void Book::lend(const std::vector<Segment>& segments) const {
	for (const Segment& segment : segments) {
		const auto mr = lkeys_.find(segment.lkey);
		if (mr == lkeys_.end()) continue;
		const RegionFacts& region = regions_.at(mr->second).facts;
		if (segment.address >= region.begin && segment.length <= region.length &&
			segment.address - region.begin <= region.length - segment.length)
			sanitizer_.poison({&segment, 1});
	}
}

void Book::give_back(const std::vector<Segment>& segments) const {
	for (const Segment& segment : segments)
		if (lkeys_.contains(segment.lkey)) sanitizer_.unpoison({&segment, 1});
}

void Book::forget_requests(QueuePair& qp) {
	for (const OpenSend& send : qp.sends)
		if (send.reads()) give_back(send.segments);
	for (const OpenReceive& receive : qp.receives) give_back(receive.segments);
	for (const OpenSend& send : qp.sends)
		if (send.signaled) count_open(qp.facts.send_cq, -1);
	count_open(qp.facts.receive_cq, -static_cast<int>(qp.receives.size()));
	qp.sends.clear();
	qp.receives.clear();
	qp.failed.reset();
}

void Book::destroys_queue_pair(Handle handle, bool receive_taken, Site site) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_queue_pair(handle);
	if (!qp) return;
	if (receive_taken)
		findings_.report(Rule::srq_qp_no_last_wqe, site,
			text("QP 0x%x is destroyed in the middle of a message, for which it has taken a receive from its shared "
				 "receive queue",
				qp->facts.qpn),
			{{"the queue pair was made here", qp->made}});
	if (!qp->sends.empty() && !qp->broken)
		findings_.report(Rule::qp_destroy_with_work, site,
			text("QP 0x%x is destroyed with %zu sends whose completions were not polled", qp->facts.qpn,
				qp->sends.size()),
			{{"the oldest was posted here", qp->sends.front().caller.site}});
}

// The program does more than to poll in vain.
void Book::note_activity(const QueuePair& qp) {
	for (const Handle cq : {qp.facts.send_cq, qp.facts.receive_cq})
		if (const auto found = completion_queues_.find(cq); found != completion_queues_.end())
			found->second.empty_since = 0;
}

void Book::count_open(Handle cq, int change) {
	if (const auto found = completion_queues_.find(cq); found != completion_queues_.end())
		found->second.open += static_cast<std::uint32_t>(change);
}

std::uint32_t Book::room(Handle handle) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_queue_pair(handle);
	if (!qp) return UINT32_MAX;
	const std::size_t open = qp->sends.size();
	return open < qp->facts.send_requests_max ? qp->facts.send_requests_max - static_cast<std::uint32_t>(open) : 0;
}

void Book::check_order(QueuePair& qp, const OpenSend& next, std::uint8_t flags, const Caller& caller) {
	const bool fenced = flags & queues::send_fence;
	bool reads_open = false;
	for (const OpenSend& earlier : qp.sends) {
		if (!earlier.reads()) continue;
		reads_open = true;
		if (fenced || next.reads()) continue;
		const bool forwards = !next.is_inline && share_bytes(earlier.segments, next.segments);
		const bool overwrites = earlier.opcode == SendOpcode::rdma_read &&
			(next.opcode == SendOpcode::rdma_write || next.opcode == SendOpcode::rdma_write_imm) &&
			overlap(earlier.remote_address, earlier.length(), next.remote_address, next.length());
		if (!forwards && !overwrites) continue;
		return findings_.report(Rule::read_then_write_nofence, caller.site,
			text("%s on QP 0x%x %s of %s, which has not completed, and has no IBV_SEND_FENCE",
				request_name(next.opcode, next.wr_id).c_str(), qp.facts.qpn,
				forwards ? "sends the result" : "overwrites the source",
				request_name(earlier.opcode, earlier.wr_id).c_str()),
			{{request_name(earlier.opcode, earlier.wr_id) + " was posted here", earlier.caller.site}});
	}
	if (fenced && !reads_open && !qp.sends.empty())
		findings_.report(Rule::fence_expects_write, caller.site,
			text("%s on QP 0x%x has IBV_SEND_FENCE, but no READ or atomic is under way",
				request_name(next.opcode, next.wr_id).c_str(), qp.facts.qpn));
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
	check_order(qp, next, flags, caller);
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
	note_activity(*qp);
	for (const SendFacts& facts : requests) {
		const bool is_inline = facts.flags & queues::send_inline;
		OpenSend next{.wr_id = facts.wr_id,
			.remote_address = facts.remote_address,
			.address_handle = facts.address_handle,
			.segments = {facts.segments.begin(), facts.segments.end()},
			.digest = {},
			.caller = caller,
			.opcode = facts.opcode,
			.signaled = qp->facts.signal_all || facts.flags & queues::send_signaled,
			.is_inline = is_inline};
		check_send(*qp, next, facts.flags, caller);
		// A datagram is sent once, so a program may take the peer's answer as the end of an
		// unsignaled one.
		if (!is_inline && !next.reads() && (next.signaled || qp->facts.type != IBV_QPT_UD))
			next.digest = digest_of(next.segments);
		if (next.signaled) {
			count_open(qp->facts.send_cq, 1);
			check_overrun(*qp, qp->facts.send_cq, caller);
		}
		if (next.reads()) lend(next.segments);
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

void Book::send_refused(Handle handle, const SendFacts& facts, int error, Site site) {
	const std::lock_guard lock(mutex_);
	QueuePair* const qp = find_queue_pair(handle);
	if (!qp) return;
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
	qp->failed = FailedPost{facts.wr_id, site, error};
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
