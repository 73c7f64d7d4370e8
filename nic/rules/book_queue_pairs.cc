// SPDX-License-Identifier: Apache-2.0
// The book's queue pairs: their states and connections.
#include <infiniband/verbs.h>

#include "nic/rules/book.h"
#include "nic/rules/names.h"

namespace verbena::rules {

// A program that asks for less afterwards is right.
void Book::queue_pair_refused(const QueuePairFacts& facts, int error, Site site) {
	const std::lock_guard lock(mutex_);
	refused_queue_pair_.emplace(
		text("ibv_create_qp() was refused (errno value %d) for max_send_wr %u, max_recv_wr %u and max_inline_data %u, "
			 "and the program has not asked for less",
			error, facts.send_requests_max, facts.receives_max, facts.inline_max),
		site);
}

void Book::extended_queue_pair_refused(Site site) {
	const std::lock_guard lock(mutex_);
	refused_extended_ = site;
}

void Book::queue_pair_made(Handle handle, const QueuePairFacts& facts, Site site) {
	const std::lock_guard lock(mutex_);
	refused_queue_pair_.reset();
	refused_extended_.reset();
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

void Book::change_needs_sqd(Handle handle, Site site) {
	const std::lock_guard lock(mutex_);
	if (const QueuePair* const qp = find_queue_pair(handle))
		findings_.report(Rule::sqd_misuse, site,
			text("ibv_modify_qp() was refused for QP 0x%x, which is in IBV_QPS_RTS, and not in IBV_QPS_SQD",
				qp->facts.qpn));
}

void Book::port_refused(unsigned port, Site site) {
	findings_.report(Rule::port_num_constant, site, text("port_num %u was refused: the device has one port", port));
}

void Book::id_destroyed(std::uint32_t qpn, Site site) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_by_number(qpn);
	if (qp && qp->facts.made_by_rdma_cm)
		findings_.report(Rule::cm_destroy_order, site,
			text("the rdma_cm id of QP 0x%x is destroyed, and the queue pair is still there", qpn),
			{{"the queue pair was made here", qp->made}});
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
	qp.gave_up.reset();
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
	report_if_given_up(*qp);
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

}  // namespace verbena::rules
