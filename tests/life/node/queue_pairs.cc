// SPDX-License-Identifier: Apache-2.0
// The commands of queue pairs.
#include <arpa/inet.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "commands.h"

namespace {

std::size_t create_qp(ibv_qp_type type, unsigned sends, unsigned receives) {
	Context& c = current();
	ibv_qp_init_attr init{.send_cq = c.cq,
		.recv_cq = c.cq,
		.cap = {.max_send_wr = sends, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = type};
	if (sends > 1) init.cap.max_inline_data = message_bytes;
	ibv_qp* qp = demand(ibv_create_qp(c.pd, &init));
	ibv_qp_attr a{.qp_state = IBV_QPS_INIT, .pkey_index = 0, .port_num = 1};
	a.qkey = q_key;
	a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	demand(ibv_modify_qp(qp, &a, mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
	if (type == IBV_QPT_UD) {
		a.qp_state = IBV_QPS_RTR;
		demand(ibv_modify_qp(qp, &a, IBV_QP_STATE));
		a.qp_state = IBV_QPS_RTS;
		demand(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
	}
	index_of[qp->qp_num] = pairs.size();
	pairs.push_back({&c, qp});
	return pairs.size() - 1;
}

void connect(Pair& p, std::uint32_t destination, std::uint8_t gid_index, const ibv_gid& gid) {
	ibv_qp_attr a{.qp_state = IBV_QPS_RTR, .path_mtu = p.at->mtu, .dest_qp_num = destination};
	a.ah_attr = {.grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 1}, .is_global = 1, .port_num = 1};
	a.max_dest_rd_atomic = 1;
	a.min_rnr_timer = 1;
	const bool rc = p.qp->qp_type == IBV_QPT_RC;
	const int path = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	demand(ibv_modify_qp(p.qp, &a, path | (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
	a.qp_state = IBV_QPS_RTS;
	a.timeout = 14;
	a.retry_cnt = a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	const int limits = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	demand(ibv_modify_qp(p.qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | (rc ? limits : 0)));
}

}  // namespace

bool obey_qp(const std::string& word, std::istream& in, std::ostream& out) {
	static const std::vector<std::string> states{"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};
	if (word == "qp") {
		const auto type = next<std::string>(in);
		const auto sends = next<unsigned>(in), receives = next<unsigned>(in);
		const ibv_qp_type qp_type = type == "rc" ? IBV_QPT_RC : type == "uc" ? IBV_QPT_UC : IBV_QPT_UD;
		const std::size_t index = create_qp(qp_type, sends, receives);
		out << ' ' << index << ' ' << pairs[index].qp->qp_num;
	} else if (word == "qps") {
		const auto count = next<int>(in);
		const auto sends = next<unsigned>(in), receives = next<unsigned>(in);
		std::ofstream file(next<std::string>(in));
		const std::size_t first = pairs.size();
		const auto start = Clock::now();
		for (int i = 0; i < count; ++i) file << pairs[create_qp(IBV_QPT_RC, sends, receives)].qp->qp_num << '\n';
		out << ' ' << first << ' ' << nanoseconds_since(start);
	} else if (word == "connect") {
		Pair& p = next_pair(in);
		const auto qpn = next<std::uint32_t>(in);
		ibv_gid to = p.at->gid;
		unsigned gid_index = 0;
		std::string gid;
		if (in >> gid_index >> gid && inet_pton(AF_INET6, gid.c_str(), to.raw) != 1) throw Failure{EINVAL};
		connect(p, qpn, static_cast<std::uint8_t>(gid_index), to);
	} else if (word == "connect_all") {
		auto index = next<std::size_t>(in);
		std::ifstream file(next<std::string>(in));
		const auto start = Clock::now();
		for (std::uint32_t qpn; file >> qpn; ++index) connect(pairs.at(index), qpn, 0, pairs.at(index).at->gid);
		out << ' ' << nanoseconds_since(start);
	} else if (word == "modify") {
		Pair& p = next_pair(in);
		ibv_qp_attr a{
			.qp_state = static_cast<ibv_qp_state>(std::ranges::find(states, next<std::string>(in)) - states.begin())};
		demand(ibv_modify_qp(p.qp, &a, IBV_QP_STATE));
	} else if (word == "state") {
		ibv_qp_attr a;
		ibv_qp_init_attr init;
		demand(ibv_query_qp(next_pair(in).qp, &a, IBV_QP_STATE, &init));
		out << ' ' << states.at(a.qp_state);
	} else if (word == "destroy") {
		demand(ibv_destroy_qp(std::exchange(next_pair(in).qp, nullptr)));
	} else {
		return false;
	}
	return true;
}
