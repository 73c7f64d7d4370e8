// SPDX-License-Identifier: Apache-2.0
// Reliable connections: the buffers of both sides, the target's memory and rights, no answer.
#include "steps.h"

namespace {

const Row rows[] = {
	// No mistake
	{"RC SEND", rc, one_receive, send_8, {"1:SUCCESS", "RTS", ""}, {"101:SUCCESS(8)", "RTS", ""}},
	{"RC SEND of nothing without segments", rc, one_receive,
		[](Side& s, Aim) {
			ibv_send_wr wr = s.request(1, IBV_WR_SEND, nullptr);
			s.post(&wr);
		},
		{"1:SUCCESS", "RTS", ""}, {"101:SUCCESS(0)", "RTS", ""}},
	{"RC WRITE, READ and atomic", rc, ready,
		[](Side& s, Aim at) {
			s.write(1, s.local(100'000), at.address + 8, at.rkey);
			s.read(2, s.local(100'000), at.address + 8, at.rkey);
			s.fetch_add(3, s.local(8), at.address, at.rkey);
		},
		{"1:SUCCESS 2:SUCCESS 3:SUCCESS", "RTS", ""}, untouched},
	{"RC zero-length WRITE and READ check no key", rc, ready,
		[](Side& s, Aim) {
			s.write(1, s.local(0), 0, wrong_key);
			s.read(2, s.local(0), 0, wrong_key);
		},
		{"1:SUCCESS 2:SUCCESS", "RTS", ""}, untouched},

	// The receiver's buffers
	{"RC SEND longer than the receive", rc,
		[](Side& s) {
			s.receive(101, s.local(4));
			return one_receive(s);
		},
		send_two, {"1:REM_INV_REQ_ERR 2:WR_FLUSH_ERR", "ERR", ""}, {"101:LOC_LEN_ERR 101:WR_FLUSH_ERR", "ERR", ""}},
	{"RC SEND of several packets longer than the receive", rc, one_receive,
		[](Side& s, Aim) { s.send(1, s.local(10'000)); }, refused, {"101:LOC_LEN_ERR", "ERR", ""}},
	{"RC SEND into a receive of a wrong L_Key", rc,
		[](Side& s) {
			ibv_sge sge = s.local(256);
			sge.lkey = wrong_key;
			s.receive(101, sge);
			return one_receive(s);
		},
		send_8, {"1:REM_OP_ERR", "ERR", ""}, {"101:LOC_PROT_ERR 101:WR_FLUSH_ERR", "ERR", ""}},
	{"RC SEND into memory that must not be written", rc,
		[](Side& s) {
			s.receive(101, Side::part_of(*s.region(4096, 0), 256));
			return ready(s);
		},
		send_8, {"1:REM_OP_ERR", "ERR", ""}, {"101:LOC_PROT_ERR", "ERR", ""}},
	{"RC SEND into a receive that ends beyond its region", rc,
		[](Side& s) {
			s.receive(101, s.local(256, region_bytes - 4));
			return ready(s);
		},
		send_8, {"1:REM_OP_ERR", "ERR", ""}, {"101:LOC_PROT_ERR", "ERR", ""}},
	{"RC SEND into another domain's memory", rc,
		[](Side& s) {
			s.receive(101, Side::part_of(*s.region(4096, everything, s.domain()), 256));
			return ready(s);
		},
		send_8, {"1:REM_OP_ERR", "ERR", ""}, {"101:LOC_PROT_ERR", "ERR", ""}},
	{"RC SEND without a receive", rc, ready, send_two, {"1:RNR_RETRY_EXC_ERR 2:WR_FLUSH_ERR", "ERR", ""}, untouched},
	{"RC SEND without a receive in the shared queue", rc_srq, ready, send_8, {"1:RNR_RETRY_EXC_ERR", "ERR", ""},
		untouched},
	{"RC WRITE with immediate without a receive", rc, ready,
		[](Side& s, Aim at) { s.write_immediate(1, s.local(8), at.address, at.rkey); },
		{"1:RNR_RETRY_EXC_ERR", "ERR", ""}, untouched},
	{"RC WRITE with immediate into a receive without segments", rc,
		[](Side& s) {
			s.receive(101, s.local(0));
			return ready(s);
		},
		[](Side& s, Aim at) { s.write_immediate(1, s.local(8), at.address, at.rkey); }, {"1:SUCCESS", "RTS", ""},
		{"101:SUCCESS(8)", "RTS", ""}},

	// The sender's own buffers
	{"RC SEND of a wrong L_Key", rc, one_receive,
		[](Side& s, Aim) {
			ibv_sge sge = s.local(8);
			sge.lkey = wrong_key;
			s.send(1, sge);
			s.send(2, s.local(8));
		},
		{"1:LOC_PROT_ERR 2:WR_FLUSH_ERR", "ERR", ""}, untouched},
	{"RC SEND behind good ones of a wrong L_Key", rc, three_receives,
		[](Side& s, Aim) {
			ibv_sge good = s.local(8), bad = good;
			bad.lkey = wrong_key;
			ibv_send_wr third = s.request(3, IBV_WR_SEND, &good), second = s.request(2, IBV_WR_SEND, &bad),
						first = s.request(1, IBV_WR_SEND, &good);
			first.next = &second;
			second.next = &third;
			s.post(&first);
		},
		{"1:SUCCESS 2:LOC_PROT_ERR 3:WR_FLUSH_ERR", "ERR", ""}, {"101:SUCCESS(8)", "RTS", ""}},
	{"RC SEND beyond the region", rc, one_receive, [](Side& s, Aim) { s.send(1, s.local(8, region_bytes - 4)); },
		unprotected, untouched},
	{"RC WRITE of another domain's memory", rc, ready,
		[](Side& s, Aim at) {
			s.write(1, Side::part_of(*s.region(4096, everything, s.domain()), 8), at.address, at.rkey);
		},
		unprotected, untouched},
	{"RC READ into a wrong L_Key", rc, ready,
		[](Side& s, Aim at) {
			ibv_sge sge = s.local(8);
			sge.lkey = wrong_key;
			s.read(1, sge, at.address, at.rkey);
		},
		unprotected, untouched},
	{"RC READ into memory that must not be written", rc, ready,
		[](Side& s, Aim at) { s.read(1, Side::part_of(*s.region(4096, 0), 8), at.address, at.rkey); }, unprotected,
		untouched},
	{"RC atomic into memory that must not be written", rc, ready,
		[](Side& s, Aim at) { s.fetch_add(1, Side::part_of(*s.region(4096, 0), 8), at.address, at.rkey); }, unprotected,
		untouched},
	{"RC READ by a QP that may have none outstanding", {.source_reads = 0}, ready, read_8,
		{"1:LOC_QP_OP_ERR", "ERR", ""}, untouched},

	// The target's memory
	{"RC WRITE with a wrong R_Key", rc, ready, [](Side& s, Aim at) { s.write(1, s.local(8), at.address, wrong_key); },
		denied, denies},
	{"RC READ with a wrong R_Key", rc, ready, [](Side& s, Aim at) { s.read(1, s.local(8), at.address, wrong_key); },
		denied, denies},
	{"RC atomic with a wrong R_Key", rc, ready,
		[](Side& s, Aim at) { s.fetch_add(1, s.local(8), at.address, wrong_key); }, denied, denies},
	{"RC WRITE beyond the end", rc, ready, write_at<region_bytes - 4>, denied, denies},
	{"RC WRITE before the beginning", rc, ready, write_at<std::size_t(-4)>, denied, denies},
	{"RC WRITE of several packets beyond the end", rc, ready,
		[](Side& s, Aim at) { s.write(1, s.local(20'000), at.address + region_bytes - 10'000, at.rkey); }, denied,
		denies},
	{"RC READ beyond the end", rc, ready, read_at<region_bytes - 4>, denied, denies},
	{"RC WRITE at the end of the address space", rc, ready,
		[](Side& s, Aim at) { s.write(1, s.local(8), ~std::uint64_t{3}, at.rkey); }, denied, denies},
	{"RC WRITE to memory for READ", rc, region_with<IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ>, write_8, denied,
		denies},
	{"RC READ of memory for WRITE", rc, region_with<IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE>, read_8, denied,
		denies},
	{"RC atomic on memory for READ and WRITE", rc, region_with<everything & ~IBV_ACCESS_REMOTE_ATOMIC>, add_8, denied,
		denies},
	{"RC WRITE to another domain's memory", rc, [](Side& s) { return whole(*s.region(4096, everything, s.domain())); },
		write_8, denied, denies},
	{"RC WRITE through a key that was deregistered", rc,
		[](Side& s) {
			ibv_pd* pd = s.pd;
			static char memory[64];
			ibv_mr* gone = ibv_reg_mr(pd, memory, sizeof memory, everything);
			s.demand(gone, "ibv_reg_mr");
			const Aim aim = whole(*gone);
			s.demand(ibv_dereg_mr(gone) == 0, "ibv_dereg_mr");
			return aim;
		},
		write_8, denied, denies},

	{"RC WRITE one byte beyond the end", rc, region_with<everything>, write_at<4089>, denied, denies},
	{"RC READ one byte beyond the end", rc, region_with<everything>, read_at<4089>, denied, denies},
	{"RC WRITE to memory that was registered anew for READ", rc,
		registered_anew_for<IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ>, write_8, denied, denies},
	{"RC READ of memory that was registered anew for WRITE", rc,
		registered_anew_for<IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE>, read_8, denied, denies},

	// The target's QP does not allow it: an invalid request, not an access error (IBA 9.7.4)
	{"RC WRITE to a QP without remote WRITE", {.target_access = everything & ~IBV_ACCESS_REMOTE_WRITE}, ready, write_8,
		refused, refuses},
	{"RC READ from a QP without remote READ", {.target_access = everything & ~IBV_ACCESS_REMOTE_READ}, ready, read_8,
		refused, refuses},
	{"RC atomic on a QP without remote atomics", {.target_access = everything & ~IBV_ACCESS_REMOTE_ATOMIC}, ready,
		add_8, refused, refuses},
	{"RC atomic at an odd address", rc, ready,
		[](Side& s, Aim at) { s.fetch_add(1, s.local(8), at.address + 4, at.rkey); }, refused, refuses},
	{"RC more READs at a time than the target has resources for", {.source_reads = 4, .target_reads = 1}, ready,
		[](Side& s, Aim at) {
			ibv_sge sge = s.local(8 << 10);
			ibv_send_wr third = s.request(3, IBV_WR_RDMA_READ, &sge), second = s.request(2, IBV_WR_RDMA_READ, &sge),
						first = s.request(1, IBV_WR_RDMA_READ, &sge);
			first.wr.rdma = second.wr.rdma = third.wr.rdma = {.remote_addr = at.address, .rkey = at.rkey};
			first.next = &second;
			second.next = &third;
			s.stop_peer();  // so that the target gets all three together
			s.post(&first);
			s.continue_peer();
		},
		{"1:SUCCESS 2:REM_INV_REQ_ERR 3:WR_FLUSH_ERR", "ERR", ""}, refuses},

	// No answer
	{"RC SEND to a QP in RESET", {.target_state = IBV_QPS_RESET}, ready, send_two,
		{"1:RETRY_EXC_ERR 2:WR_FLUSH_ERR", "ERR", ""}, {"", "RESET", ""}},
	{"RC SEND to a QP in INIT", {.target_state = IBV_QPS_INIT}, one_receive, send_8, unanswered, {"", "INIT", ""}},
	{"RC READ from a QP in ERR", {.target_state = IBV_QPS_ERR}, ready, read_8, unanswered, {"", "ERR", ""}},
	{"RC SEND to a QP that was destroyed", rc,
		[](Side& s) {
			s.destroy_qp();
			return ready(s);
		},
		send_8, unanswered, {"", "none", ""}},

	// Flushed
	{"Requests to a QP in ERR", rc, ready,
		[](Side& s, Aim at) {
			s.modify(IBV_QPS_ERR);
			s.send(1, s.local(8));
			s.write(2, s.local(8), at.address, at.rkey);
		},
		{"1:WR_FLUSH_ERR 2:WR_FLUSH_ERR", "ERR", ""}, untouched},
	{"Receives to a QP in ERR", rc, ready,
		[](Side& s, Aim) {
			s.modify(IBV_QPS_ERR);
			s.receive(1, s.local(8));
			s.receive(2, s.local(8));
		},
		{"1:WR_FLUSH_ERR 2:WR_FLUSH_ERR", "ERR", ""}, untouched},
	{"Receives of a QP that goes to ERR", rc,
		[](Side& s) {
			three_receives(s);
			s.modify(IBV_QPS_ERR);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"101:WR_FLUSH_ERR 102:WR_FLUSH_ERR 103:WR_FLUSH_ERR", "ERR", ""}},
	{"A QP of a shared receive queue goes to ERR", rc_srq,
		[](Side& s) {
			one_receive(s);
			s.modify(IBV_QPS_ERR);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"", "ERR", "QP_LAST_WQE_REACHED"}},
	{"A QP that goes to RESET forgets its requests", rc,
		[](Side& s) {
			three_receives(s);
			s.modify(IBV_QPS_RESET);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"", "RESET", ""}},
};

}  // namespace

std::span<const Row> rows_of_connections() { return rows; }
