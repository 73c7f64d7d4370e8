// SPDX-License-Identifier: Apache-2.0
// The extended poll of ibv_create_cq_ex(3): ibv_start_poll takes the queue's lock, ibv_end_poll
// releases it, and one completion at a time is current in between.
#include <cerrno>
#include <ctime>
#include <sched.h>

#include "base/log.h"
#include "nic/verbs/adverse_path.h"
#include "nic/verbs/checked_path.h"
#include "nic/verbs/objects.h"
#include "nic/verbs/ordered_path.h"
#include "nic/verbs/traced_path.h"

namespace verbena::verbs {
namespace {

// Makes the next completion the current one. False if the queue is empty.
bool take(SoftCq& cq) {
	return cq.queue->drain(1, [&](const queues::Completion& completion, int) {
		cq.current = completion;
		cq.public_cq.wr_id = completion.wr_id;
		cq.public_cq.status = static_cast<ibv_wc_status>(completion.status);
	}) == 1;
}

int start_poll(ibv_cq_ex* public_cq, ibv_poll_cq_attr* attributes) {
	if (attributes->comp_mask)
		return log::refuse(EINVAL, "ibv_start_poll: comp_mask 0x%x has unknown bits", attributes->comp_mask);
	SoftCq& cq = SoftCq::of(public_cq);
	cq.queue->lock.lock();
	if (take(cq)) return 0;
	const bool idle = cq.engine->poll();
	if (take(cq)) return 0;
	cq.queue->lock.unlock();  // after ENOENT the program does not call ibv_end_poll
	if (idle) {  // as in poll_cq
		sched_yield();
		cq.queue->lock.lock();
		if (take(cq)) return 0;
		cq.queue->lock.unlock();
	}
	return ENOENT;
}

int next_poll(ibv_cq_ex* public_cq) { return take(SoftCq::of(public_cq)) ? 0 : ENOENT; }
void end_poll(ibv_cq_ex* public_cq) { SoftCq::of(public_cq).queue->lock.unlock(); }

const queues::Completion& current(ibv_cq_ex* public_cq) { return SoftCq::of(public_cq).current; }

std::uint64_t clock_ns(clockid_t clock) {
	timespec t;
	clock_gettime(clock, &t);
	return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

}  // namespace

void fill_extended_poll(SoftCq& cq) {
	ibv_cq_ex& q = cq.public_cq;
	q.start_poll = start_poll;
	q.next_poll = next_poll;
	q.end_poll = end_poll;
	q.read_opcode = [](ibv_cq_ex* c) { return static_cast<ibv_wc_opcode>(current(c).opcode); };
	q.read_vendor_err = [](ibv_cq_ex*) { return std::uint32_t{0}; };
	q.read_byte_len = [](ibv_cq_ex* c) { return current(c).length; };
	q.read_imm_data = [](ibv_cq_ex* c) { return __be32{current(c).immediate}; };
	q.read_qp_num = [](ibv_cq_ex* c) { return current(c).qpn; };
	q.read_src_qp = [](ibv_cq_ex* c) { return current(c).source_qp; };
	q.read_wc_flags = [](ibv_cq_ex* c) { return static_cast<unsigned>(current(c).flags); };
	q.read_slid = [](ibv_cq_ex*) { return std::uint32_t{0}; };
	q.read_sl = [](ibv_cq_ex* c) { return current(c).sl; };
	q.read_dlid_path_bits = [](ibv_cq_ex*) { return std::uint8_t{0}; };
	// The time at which the program reads the completion: completions carry no time stamp.
	q.read_completion_ts = [](ibv_cq_ex*) { return clock_ns(CLOCK_MONOTONIC); };
	q.read_completion_wallclock_ns = [](ibv_cq_ex*) { return clock_ns(CLOCK_REALTIME); };
	trace_extended_poll(cq);
	order_extended_poll(cq);
	adverse_extended_poll(cq);
	check_extended_poll(cq);
}

}  // namespace verbena::verbs
