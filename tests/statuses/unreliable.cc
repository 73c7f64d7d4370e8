// SPDX-License-Identifier: Apache-2.0
// UC and UD: the sender gets no error.
#include "steps.h"

namespace {

const Row rows[] = {
	// UC: the sender gets no error
	{"UC SEND", uc, one_receive, send_8, {"1:SUCCESS", "RTS", ""}, {"101:SUCCESS(8)", "RTS", ""}},
	{"UC SEND without a receive", uc, ready, send_8, {"1:SUCCESS", "RTS", ""}, untouched},
	{"UC WRITE with a wrong R_Key", uc, one_receive,
		[](Side& s, Aim at) {
			s.write(1, s.local(8), at.address, wrong_key);
			s.write_immediate(2, s.local(8), at.address, at.rkey);
		},
		{"1:SUCCESS 2:SUCCESS", "RTS", ""}, {"101:SUCCESS(8)", "RTS", ""}},
	{"UC WRITE to a QP without remote WRITE", {.type = IBV_QPT_UC, .target_access = IBV_ACCESS_LOCAL_WRITE},
		one_receive,
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
	{"UD SEND", ud, one_receive, [](Side& s, Aim) { datagram_marker(s); }, {"9:SUCCESS", "RTS", ""},
		{"101:SUCCESS(56)", "RTS", ""}},
	{"UD SEND without a receive", ud, ready, [](Side& s, Aim) { datagram_marker(s); }, {"9:SUCCESS", "RTS", ""},
		untouched},
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
};

}  // namespace

std::span<const Row> rows_of_unreliable() { return rows; }
