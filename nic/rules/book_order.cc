// SPDX-License-Identifier: Apache-2.0
// The order of sends on which a program may rely, and on which it may not.
#include <algorithm>

#include <infiniband/verbs.h>

#include "nic/rules/book.h"
#include "nic/rules/names.h"
#include "nic/rules/segments.h"

namespace verbena::rules {
namespace {

using queues::SendOpcode;

// A WRITE of more bytes is data; one of at most this many may be a flag that says that data is
// there.
constexpr std::uint32_t flag_bytes_max = 64;

bool writes(const OpenSend& send) {
	return send.opcode == SendOpcode::rdma_write || send.opcode == SendOpcode::rdma_write_imm;
}

}  // namespace

void Book::check_order(QueuePair& qp, const OpenSend& next, std::uint8_t flags, const Caller& caller) {
	const bool fenced = flags & queues::send_fence;
	bool reads_open = false;
	for (const OpenSend& earlier : qp.sends) {
		if (!earlier.reads()) continue;
		reads_open = true;
		if (fenced || next.reads()) continue;
		const bool forwards = !next.is_inline && share_bytes(earlier.segments, next.segments);
		const bool overwrites = earlier.opcode == SendOpcode::rdma_read && writes(next) &&
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

void Book::check_flag(QueuePair& qp, const OpenSend& next, const Caller& caller) {
	const bool length_is_unknown = next.is_inline && next.segments.empty();
	if (qp.facts.type != IBV_QPT_RC || length_is_unknown || (!writes(next) && !next.is_atomic())) return;
	if (next.length() > flag_bytes_max) {
		qp.writes_data = true;
		data_writes_[caller.thread] = {qp.handle, next.wr_id, next.remote_address, next.rkey};
		return;
	}
	const auto last = data_writes_.find(caller.thread);
	if (qp.writes_data || last == data_writes_.end() || last->second.rkey != next.rkey) return;
	const DataWrite& data = last->second;
	const QueuePair* const other = find_queue_pair(data.queue_pair);
	if (!other) return;
	const auto open = std::ranges::find_if(other->sends, [&](const OpenSend& send) {
		return writes(send) && send.wr_id == data.wr_id && send.remote_address == data.remote_address;
	});
	if (open == other->sends.end()) return;
	findings_.report(Rule::write_flag_other_qp, caller.site,
		text("%s on QP 0x%x follows %s of %u bytes on QP 0x%x, whose completion was not polled; both are in the region "
			 "with the rkey 0x%x, and nothing keeps their order",
			request_name(next.opcode, next.wr_id).c_str(), qp.facts.qpn,
			request_name(open->opcode, open->wr_id).c_str(), open->length(), other->facts.qpn, next.rkey),
		{{request_name(open->opcode, open->wr_id) + " was posted here", open->caller.site}});
}

}  // namespace verbena::rules
