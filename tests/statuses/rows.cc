// SPDX-License-Identifier: Apache-2.0
// The table of mistakes, grouped by the party that makes them (rows.h).
#include "rows.h"

#include <cstddef>
#include <string>

namespace {

Aim ready(Side& s) { return whole(*s.mr); }
Aim one_receive(Side& s) {
	s.receive(101, s.local(256));
	return ready(s);
}
Aim three_receives(Side& s) {
	for (const std::uint64_t wr_id : {101, 102, 103}) s.receive(wr_id, s.local(256));
	return ready(s);
}
template <int access> Aim region_with(Side& s) { return whole(*s.region(4096, access)); }
template <int access> Aim registered_anew_for(Side& s) {
	ibv_mr* mr = s.region(4096, everything);
	s.demand(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, access) == 0, "ibv_rereg_mr");
	return whole(*mr);
}
template <int access> Aim unmapped_with(Side& s) { return whole(*s.unmapped_region(access)); }

void send_8(Side& s, Aim) { s.send(1, s.local(8)); }
void send_two(Side& s, Aim) {
	s.send(1, s.local(8));
	s.send(2, s.local(8));
}
void write_8(Side& s, Aim at) { s.write(1, s.local(8), at.address, at.rkey); }
void read_8(Side& s, Aim at) { s.read(1, s.local(8), at.address, at.rkey); }
void add_8(Side& s, Aim at) { s.fetch_add(1, s.local(8), at.address, at.rkey); }
template <std::size_t offset> void write_at(Side& s, Aim at) { s.write(1, s.local(8), at.address + offset, at.rkey); }
template <std::size_t offset> void read_at(Side& s, Aim at) { s.read(1, s.local(8), at.address + offset, at.rkey); }

// Binds a window over the first 64 bytes of the target's region before the source begins.
template <unsigned access> Aim window_over(Side& s, ibv_qp* through) {
	ibv_mw* mw = s.window();
	const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
	s.bind(201, through, mw, rkey, *s.mr, 0, access);
	s.await(1);
	return {whole(*s.mr).address, rkey};
}
template <unsigned access> Aim window_over(Side& s) { return window_over<access>(s, s.qp); }
constexpr unsigned remote_write = IBV_ACCESS_REMOTE_WRITE, remote_read = IBV_ACCESS_REMOTE_READ;

// UC and UD drop wrong requests without a report. A good request after them shows that the path
// works and that only the wrong ones were dropped.
void datagram_marker(Side& s) { s.datagram(9, s.local(16)); }

constexpr Setup rc{}, uc{.type = IBV_QPT_UC}, ud{.type = IBV_QPT_UD}, rc_srq{.shared_receive_queue = true},
	solicited{.armed_for_solicited = true};
const Seen untouched{"", "RTS", ""};
const Seen denied{"1:REM_ACCESS_ERR", "ERR", ""}, denies{"", "ERR", "QP_ACCESS_ERR"};
const Seen refused{"1:REM_INV_REQ_ERR", "ERR", ""}, refuses{"", "ERR", "QP_REQ_ERR"};
const Seen unprotected{"1:LOC_PROT_ERR", "ERR", ""}, unanswered{"1:RETRY_EXC_ERR", "ERR", ""};

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
		[](Side& s, Aim) { s.send(1, s.local(10'000)); }, refused,
		{"101:LOC_LEN_ERR", "ERR", ""}},
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
	{"RC SEND without a receive in the shared queue", rc_srq,
		ready, send_8, {"1:RNR_RETRY_EXC_ERR", "ERR", ""}, untouched},
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
	{"RC SEND beyond the region", rc, one_receive,
		[](Side& s, Aim) { s.send(1, s.local(8, region_bytes - 4)); }, unprotected, untouched},
	{"RC WRITE of another domain's memory", rc, ready,
		[](Side& s, Aim at) {
			s.write(1, Side::part_of(*s.region(4096, everything, s.domain()), 8), at.address, at.rkey);
		},
		unprotected,
		untouched},
	{"RC READ into a wrong L_Key", rc, ready,
		[](Side& s, Aim at) {
			ibv_sge sge = s.local(8);
			sge.lkey = wrong_key;
			s.read(1, sge, at.address, at.rkey);
		},
		unprotected, untouched},
	{"RC READ into memory that must not be written", rc, ready,
		[](Side& s, Aim at) { s.read(1, Side::part_of(*s.region(4096, 0), 8), at.address, at.rkey); },
		unprotected, untouched},
	{"RC atomic into memory that must not be written", rc, ready,
		[](Side& s, Aim at) { s.fetch_add(1, Side::part_of(*s.region(4096, 0), 8), at.address, at.rkey); },
		unprotected, untouched},
	{"RC READ by a QP that may have none outstanding",
		{.source_reads = 0}, ready, read_8, {"1:LOC_QP_OP_ERR", "ERR", ""}, untouched},

	// The target's memory
	{"RC WRITE with a wrong R_Key", rc, ready,
		[](Side& s, Aim at) { s.write(1, s.local(8), at.address, wrong_key); }, denied, denies},
	{"RC READ with a wrong R_Key", rc, ready,
		[](Side& s, Aim at) { s.read(1, s.local(8), at.address, wrong_key); }, denied, denies},
	{"RC atomic with a wrong R_Key", rc, ready,
		[](Side& s, Aim at) { s.fetch_add(1, s.local(8), at.address, wrong_key); }, denied, denies},
	{"RC WRITE beyond the end", rc, ready, write_at<region_bytes - 4>, denied, denies},
	{"RC WRITE before the beginning", rc, ready, write_at<std::size_t(-4)>, denied, denies},
	{"RC WRITE of several packets beyond the end", rc, ready,
		[](Side& s, Aim at) { s.write(1, s.local(20'000), at.address + region_bytes - 10'000, at.rkey); },
		denied, denies},
	{"RC READ beyond the end", rc, ready, read_at<region_bytes - 4>, denied, denies},
	{"RC WRITE at the end of the address space", rc, ready,
		[](Side& s, Aim at) { s.write(1, s.local(8), ~std::uint64_t{3}, at.rkey); },
		denied, denies},
	{"RC WRITE to memory for READ", rc, region_with<IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ>, write_8,
		denied, denies},
	{"RC READ of memory for WRITE", rc, region_with<IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE>, read_8,
		denied, denies},
	{"RC atomic on memory for READ and WRITE", rc, region_with<everything & ~IBV_ACCESS_REMOTE_ATOMIC>, add_8,
		denied, denies},
	{"RC WRITE to another domain's memory", rc,
		[](Side& s) { return whole(*s.region(4096, everything, s.domain())); }, write_8, denied,
		denies},
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
	{"RC WRITE to a QP without remote WRITE",
		{.target_access = everything & ~IBV_ACCESS_REMOTE_WRITE}, ready, write_8, refused, refuses},
	{"RC READ from a QP without remote READ",
		{.target_access = everything & ~IBV_ACCESS_REMOTE_READ}, ready, read_8, refused, refuses},
	{"RC atomic on a QP without remote atomics",
		{.target_access = everything & ~IBV_ACCESS_REMOTE_ATOMIC}, ready, add_8, refused, refuses},
	{"RC atomic at an odd address", rc, ready,
		[](Side& s, Aim at) { s.fetch_add(1, s.local(8), at.address + 4, at.rkey); }, refused,
		refuses},
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
	{"RC SEND to a QP in RESET",
		{.target_state = IBV_QPS_RESET}, ready, send_two, {"1:RETRY_EXC_ERR 2:WR_FLUSH_ERR", "ERR", ""},
		{"", "RESET", ""}},
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

	// Windows
	{"RC WRITE through a window", rc, window_over<remote_write>, write_8, {"1:SUCCESS", "RTS", ""},
		{"201:SUCCESS", "RTS", ""}},
	{"RC WRITE beyond a window", rc, window_over<remote_write>, write_at<60>, denied,
		{"201:SUCCESS", "ERR", "QP_ACCESS_ERR"}},
	{"RC READ through a window for WRITE", rc, window_over<remote_write>, read_8, denied,
		{"201:SUCCESS", "ERR", "QP_ACCESS_ERR"}},
	{"RC WRITE through a window bound to another QP", rc,
		[](Side& s) { return window_over<remote_write>(s, s.another_qp()); }, write_8,
		denied, {"201:SUCCESS", "ERR", "QP_ACCESS_ERR"}},
	{"RC WRITE through a window that was invalidated", rc,
		[](Side& s) {
			const Aim at = window_over<remote_write>(s);
			s.invalidate(202, at.rkey);
			s.await(2);
			return at;
		},
		write_8, denied, {"201:SUCCESS 202:SUCCESS", "ERR", "QP_ACCESS_ERR"}},
	{"RC WRITE through a window that the SEND before it invalidated", rc,
		[](Side& s) {
			one_receive(s);
			return window_over<remote_write>(s);
		},
		[](Side& s, Aim at) {
			s.send_invalidating(1, at.rkey);
			s.write(2, s.local(8), at.address, at.rkey);
		},
		{"1:SUCCESS 2:REM_ACCESS_ERR", "ERR", ""}, {"201:SUCCESS 101:SUCCESS(8)", "ERR", "QP_ACCESS_ERR"}},
	{"Bind to a region that allows none", rc,
		[](Side& s) {
			ibv_mr* mr = s.region(4096, everything);
			ibv_mw* mw = s.window();
			s.bind(201, s.qp, mw, ibv_inc_rkey(mw->rkey), *mr, 0, remote_write);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"201:MW_BIND_ERR", "ERR", ""}},
	{"Bind beyond the region", rc,
		[](Side& s) {
			ibv_mw* mw = s.window();
			s.bind(201, s.qp, mw, ibv_inc_rkey(mw->rkey), *s.mr, region_bytes - 4, remote_write);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"201:MW_BIND_ERR", "ERR", ""}},
	{"Bind for WRITE to memory that must not be written", rc,
		[](Side& s) {
			ibv_mr* mr = s.region(4096, IBV_ACCESS_MW_BIND | IBV_ACCESS_REMOTE_READ);
			ibv_mw* mw = s.window();
			s.bind(201, s.qp, mw, ibv_inc_rkey(mw->rkey), *mr, 0, remote_write);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"201:MW_BIND_ERR", "ERR", ""}},
	{"Bind of a window that is bound", rc,
		[](Side& s) {
			ibv_mw* mw = s.window();
			s.bind(201, s.qp, mw, ibv_inc_rkey(mw->rkey), *s.mr, 0, remote_write);
			s.bind(202, s.qp, mw, ibv_inc_rkey(ibv_inc_rkey(mw->rkey)), *s.mr, 0, remote_write);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"201:SUCCESS 202:MW_BIND_ERR", "ERR", ""}},
	{"Local invalidate of a region's key", rc,
		[](Side& s) {
			s.invalidate(201, s.mr->rkey);
			return ready(s);
		},
		[](Side&, Aim) {}, untouched, {"201:LOC_QP_OP_ERR", "ERR", ""}},
	{"SEND that invalidates a region's key", rc, one_receive,
		[](Side& s, Aim at) { s.send_invalidating(1, at.rkey); }, denied,
		{"101:LOC_ACCESS_ERR", "ERR", ""}},
	{"SEND that invalidates a wrong key", rc, one_receive,
		[](Side& s, Aim) { s.send_invalidating(1, wrong_key); }, denied,
		{"101:LOC_ACCESS_ERR", "ERR", ""}},

	// Memory that was unmapped after its registration. On devices that pin regions all of these
	// succeed.
	{"unmapped: RC SEND from it", rc, one_receive,
		[](Side& s, Aim) { s.send(1, Side::part_of(*s.unmapped_region(everything), 8)); },
		unprotected, untouched},
	{"unmapped: RC SEND into it", rc,
		[](Side& s) {
			s.receive(101, Side::part_of(*s.unmapped_region(everything), 256));
			return ready(s);
		},
		send_8, {"1:REM_OP_ERR", "ERR", ""}, {"101:LOC_PROT_ERR", "ERR", ""}},
	{"unmapped: RC WRITE to it", rc, unmapped_with<everything>, write_8, denied, denies},
	{"unmapped: RC READ of it", rc, unmapped_with<everything>, read_8, denied, denies},
	{"unmapped: RC atomic on it", rc, unmapped_with<everything>, add_8, denied, denies},
	{"unmapped: RC READ into it", rc, ready,
		[](Side& s, Aim at) { s.read(1, Side::part_of(*s.unmapped_region(everything), 8), at.address, at.rkey); },
		unprotected, untouched},
	{"unmapped: UD SEND into it", ud,
		[](Side& s) {
			s.receive(101, Side::part_of(*s.unmapped_region(everything), 256));
			return ready(s);
		},
		[](Side& s, Aim) { datagram_marker(s); }, {"9:SUCCESS", "RTS", ""}, {"101:LOC_PROT_ERR", "ERR", ""}},

	// UC: the sender gets no error
	{"UC SEND", uc, one_receive, send_8, {"1:SUCCESS", "RTS", ""}, {"101:SUCCESS(8)", "RTS", ""}},
	{"UC SEND without a receive", uc, ready, send_8, {"1:SUCCESS", "RTS", ""}, untouched},
	{"UC WRITE with a wrong R_Key", uc, one_receive,
		[](Side& s, Aim at) {
			s.write(1, s.local(8), at.address, wrong_key);
			s.write_immediate(2, s.local(8), at.address, at.rkey);
		},
		{"1:SUCCESS 2:SUCCESS", "RTS", ""}, {"101:SUCCESS(8)", "RTS", ""}},
	{"UC WRITE to a QP without remote WRITE",
		{.type = IBV_QPT_UC, .target_access = IBV_ACCESS_LOCAL_WRITE}, one_receive,
		[](Side& s, Aim at) {
			s.write(1, s.local(8), at.address, at.rkey);
			s.send(2, s.local(8));
		},
		{"1:SUCCESS 2:SUCCESS", "RTS", ""}, {"101:SUCCESS(8)", "RTS", ""}},
	{"UC SEND of a wrong L_Key", uc, one_receive,
		[](Side& s, Aim) {
			ibv_sge sge = s.local(8);
			sge.lkey = wrong_key;
			s.send(1, sge);
			s.await(1);
			s.send(2, s.local(8));
		},
		{"1:LOC_PROT_ERR 2:WR_FLUSH_ERR", "SQE", ""}, untouched},
	{"UC SEND into a receive of a wrong L_Key", uc,
		[](Side& s) {
			ibv_sge sge = s.local(256);
			sge.lkey = wrong_key;
			s.receive(101, sge);
			return one_receive(s);
		},
		send_8, {"1:SUCCESS", "RTS", ""}, {"101:LOC_PROT_ERR 101:WR_FLUSH_ERR", "ERR", ""}},

	// UD
	{"UD SEND", ud, one_receive,
		[](Side& s, Aim) { datagram_marker(s); }, {"9:SUCCESS", "RTS", ""}, {"101:SUCCESS(56)", "RTS", ""}},
	{"UD SEND without a receive", ud, ready,
		[](Side& s, Aim) { datagram_marker(s); }, {"9:SUCCESS", "RTS", ""}, untouched},
	{"UD SEND with a wrong Q_Key", ud, one_receive,
		[](Side& s, Aim) {
			s.datagram(1, s.local(8), wrong_key);
			datagram_marker(s);
		},
		{"1:SUCCESS 9:SUCCESS", "RTS", ""}, {"101:SUCCESS(56)", "RTS", ""}},
	{"UD SEND longer than the MTU", ud,
		[](Side& s) {
			s.receive(101, s.local(10'000));
			return ready(s);
		},
		[](Side& s, Aim) {
			s.datagram(1, s.local(4097));
			datagram_marker(s);
		},
		{"1:SUCCESS 9:SUCCESS", "RTS", ""}, {"101:SUCCESS(56)", "RTS", ""}},
	{"UD SEND longer than the receive", ud,
		[](Side& s) {
			s.receive(101, s.local(40 + 16));
			return ready(s);
		},
		[](Side& s, Aim) {
			s.datagram(1, s.local(17));
			datagram_marker(s);
		},
		{"1:SUCCESS 9:SUCCESS", "RTS", ""}, {"101:SUCCESS(56)", "RTS", ""}},
	{"UD SEND of a wrong L_Key, and on after recovery", ud, one_receive,
		[](Side& s, Aim) {
			ibv_sge sge = s.local(8);
			sge.lkey = wrong_key;
			s.datagram(1, sge);
			s.datagram(2, s.local(8));
			s.await(2);
			s.modify(IBV_QPS_RTS);
			datagram_marker(s);
		},
		{"1:LOC_PROT_ERR 2:WR_FLUSH_ERR 9:SUCCESS", "RTS", ""}, {"101:SUCCESS(56)", "RTS", ""}},
	{"UD SEND into a receive of a wrong L_Key", ud,
		[](Side& s) {
			ibv_sge sge = s.local(256);
			sge.lkey = wrong_key;
			s.receive(101, sge);
			return one_receive(s);
		},
		[](Side& s, Aim) { datagram_marker(s); }, {"9:SUCCESS", "RTS", ""},
		{"101:LOC_PROT_ERR 101:WR_FLUSH_ERR", "ERR", ""}},

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
	{"A message that asks for no event", solicited,
		one_receive, send_8, {"1:SUCCESS", "RTS", ""}, {"101:SUCCESS(8)", "RTS", ""}},
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
	{"RC SEND to a process that has ended", rc,
		ready, send_two, {"1:RETRY_EXC_ERR 2:WR_FLUSH_ERR", "ERR", ""}, {}, true},
};

}  // namespace

std::span<const Row> all_rows() { return rows; }
