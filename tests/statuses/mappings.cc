// SPDX-License-Identifier: Apache-2.0
// Windows, and memory that was unmapped after its registration.
#include "steps.h"

namespace {

const Row rows[] = {
	// Windows
	{"RC WRITE through a window", rc, window_over<remote_write>, write_8, {"1:SUCCESS", "RTS", ""},
		{"201:SUCCESS", "RTS", ""}},
	{"RC WRITE beyond a window", rc, window_over<remote_write>, write_at<60>, denied,
		{"201:SUCCESS", "ERR", "QP_ACCESS_ERR"}},
	{"RC READ through a window for WRITE", rc, window_over<remote_write>, read_8, denied,
		{"201:SUCCESS", "ERR", "QP_ACCESS_ERR"}},
	{"RC WRITE through a window bound to another QP", rc,
		[](Side& s) { return window_over<remote_write>(s, s.another_qp()); }, write_8, denied,
		{"201:SUCCESS", "ERR", "QP_ACCESS_ERR"}},
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
	{"SEND that invalidates a region's key", rc, one_receive, [](Side& s, Aim at) { s.send_invalidating(1, at.rkey); },
		denied, {"101:LOC_ACCESS_ERR", "ERR", ""}},
	{"SEND that invalidates a wrong key", rc, one_receive, [](Side& s, Aim) { s.send_invalidating(1, wrong_key); },
		denied, {"101:LOC_ACCESS_ERR", "ERR", ""}},

	// Memory that was unmapped after its registration. On devices that pin regions all of these
	// succeed.
	{"unmapped: RC SEND from it", rc, one_receive,
		[](Side& s, Aim) { s.send(1, Side::part_of(*s.unmapped_region(everything), 8)); }, unprotected, untouched},
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
};

}  // namespace

std::span<const Row> rows_of_mappings() { return rows; }
