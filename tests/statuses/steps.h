// SPDX-License-Identifier: Apache-2.0
// The steps and results that several rows have in common.
#pragma once

#include "rows.h"

#include <cstddef>
#include <cstdint>

inline Aim ready(Side& s) { return whole(*s.mr); }
inline Aim one_receive(Side& s) {
	s.receive(101, s.local(256));
	return ready(s);
}
inline Aim three_receives(Side& s) {
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

inline void send_8(Side& s, Aim) { s.send(1, s.local(8)); }
inline void send_two(Side& s, Aim) {
	s.send(1, s.local(8));
	s.send(2, s.local(8));
}
inline void write_8(Side& s, Aim at) { s.write(1, s.local(8), at.address, at.rkey); }
inline void read_8(Side& s, Aim at) { s.read(1, s.local(8), at.address, at.rkey); }
inline void add_8(Side& s, Aim at) { s.fetch_add(1, s.local(8), at.address, at.rkey); }
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
inline constexpr unsigned remote_write = IBV_ACCESS_REMOTE_WRITE, remote_read = IBV_ACCESS_REMOTE_READ;

// UC and UD drop wrong requests without a report. A good request after them shows that the path
// works and that only the wrong ones were dropped.
inline void datagram_marker(Side& s) { s.datagram(9, s.local(16)); }

inline constexpr Setup rc{}, uc{.type = IBV_QPT_UC}, ud{.type = IBV_QPT_UD}, rc_srq{.shared_receive_queue = true},
	solicited{.armed_for_solicited = true};
inline const Seen untouched{"", "RTS", ""};
inline const Seen denied{"1:REM_ACCESS_ERR", "ERR", ""}, denies{"", "ERR", "QP_ACCESS_ERR"};
inline const Seen refused{"1:REM_INV_REQ_ERR", "ERR", ""}, refuses{"", "ERR", "QP_REQ_ERR"};
inline const Seen unprotected{"1:LOC_PROT_ERR", "ERR", ""}, unanswered{"1:RETRY_EXC_ERR", "ERR", ""};
