// SPDX-License-Identifier: Apache-2.0
// Asynchronous events, and a peer that has ended.
#include "steps.h"

namespace {

const Row rows[] = {
	// Events
	{"The first packet for a QP in RTR", {.target_state = IBV_QPS_RTR}, one_receive, send_8, {"1:SUCCESS", "RTS", ""},
		{"101:SUCCESS(8)", "RTR", "COMM_EST"}},
	{"A shared receive queue that falls below its limit", rc_srq,
		[](Side& s) {
			three_receives(s);
			ibv_srq_attr attributes{.max_wr = 0, .max_sge = 0, .srq_limit = 2};
			s.demand(ibv_modify_srq(s.srq, &attributes, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
			return ready(s);
		},
		send_two, {"1:SUCCESS 2:SUCCESS", "RTS", ""}, {"101:SUCCESS(8) 102:SUCCESS(8)", "RTS", "SRQ_LIMIT_REACHED"}},
	{"A send queue that has drained", rc, one_receive,
		[](Side& s, Aim at) {
			send_8(s, at);
			s.modify(IBV_QPS_SQD, true);
			s.send(2, s.local(8));  // waits for RTS
		},
		{"1:SUCCESS", "SQD", "SQ_DRAINED"}, {"101:SUCCESS(8)", "RTS", ""}},
	{"A message that asks for no event", solicited, one_receive, send_8, {"1:SUCCESS", "RTS", ""},
		{"101:SUCCESS(8)", "RTS", ""}},
	{"A solicited message", solicited, one_receive, [](Side& s, Aim) { s.send(1, s.local(8), IBV_SEND_SOLICITED); },
		{"1:SUCCESS", "RTS", ""}, {"101:SUCCESS(8)", "RTS", "COMPLETION"}},
	{"An error asks for an event by itself", solicited,
		[](Side& s) {
			one_receive(s);
			s.modify(IBV_QPS_ERR);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"101:WR_FLUSH_ERR", "ERR", "COMPLETION"}},
	{"A completion queue that overflows", {.cq_entries = 1}, three_receives,
		[](Side& s, Aim) {
			ibv_sge sge = s.local(8);
			ibv_send_wr requests[12];
			for (std::uint64_t i = 0; i < 12; ++i) {
				requests[i] = s.request(i, IBV_WR_SEND, &sge);
				requests[i].next = i == 11 ? nullptr : &requests[i + 1];
			}
			s.modify(IBV_QPS_ERR);
			s.post(requests);
		},
		{"0:WR_FLUSH_ERR", "ERR", "CQ_ERR"}, untouched},

	// The last row: the target's process has ended
	{"RC SEND to a process that has ended", rc, ready, send_two, {"1:RETRY_EXC_ERR 2:WR_FLUSH_ERR", "ERR", ""}, {},
		true},
};

}  // namespace

std::span<const Row> rows_of_events() { return rows; }
