// SPDX-License-Identifier: Apache-2.0
// One of the two processes of these tests, with one reliable queue pair on the loopback device. The
// target starts the initiator, which is this program again, and both talk over a socket.
//
// Threads: one, but words of the region may be read and written by others.
// Errors: a call that fails ends the program with a message.
#pragma once

#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

[[noreturn]] inline void fail(const char* what) {
	std::fprintf(stderr, "%s: %s\n", what, std::strerror(errno));
	std::_Exit(1);
}
inline void demand(bool good, const char* what) {
	if (!good) fail(what);
}

constexpr int everything =
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// The memory that the peer may use.
struct Aim {
	std::uint64_t address = 0;
	std::uint32_t rkey = 0, bytes = 0;
};

class Side {
public:
	Side(int socket, std::size_t bytes) : socket(socket), bytes(bytes) {
		ibv_device** devices = ibv_get_device_list(nullptr);
		for (ibv_device** at = devices; devices && *at && !context; ++at)
			if (std::strcmp(ibv_get_device_name(*at), "vb_lo") == 0) context = ibv_open_device(*at);
		demand(context, "open_device");
		ibv_free_device_list(devices);
		pd = ibv_alloc_pd(context);
		channel = ibv_create_comp_channel(context);
		cq = ibv_create_cq(context, 256, nullptr, channel, 0);
		demand(pd && channel && cq, "objects");
		void* at = nullptr;
		demand(posix_memalign(&at, 4096, bytes) == 0, "memory");  // the NIC's heap may serve it
		memory = static_cast<unsigned char*>(at);
		std::memset(memory, 0, bytes);
		mr = register_all();
		make_queue_pair();
	}

	// In parentheses, because the macro of verbs.h would choose another function.
	ibv_mr* register_all() {
		ibv_mr* made = (ibv_reg_mr)(pd, memory, bytes, everything);
		demand(made, "reg_mr");
		return made;
	}
	Aim aim(const ibv_mr* of) const {
		return {reinterpret_cast<std::uint64_t>(memory), of->rkey, static_cast<std::uint32_t>(bytes)};
	}

	void make_queue_pair() {
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq;
		init.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 1, .max_inline_data = 64};
		init.qp_type = IBV_QPT_RC;
		qp = ibv_create_qp(pd, &init);
		demand(qp, "create_qp");
	}
	// Connects with the peer's queue pair; both sides call this at the same step.
	void connect() {
		put(qp->qp_num);
		make_ready(qp, get<std::uint32_t>());
		meet();
	}
	void make_ready(ibv_qp* of, std::uint32_t destination) {
		ibv_qp_attr a{};
		a.qp_state = IBV_QPS_INIT;
		a.port_num = 1;
		a.qp_access_flags = everything;
		demand(!ibv_modify_qp(of, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
		demand(!ibv_query_gid(context, 1, 0, &a.ah_attr.grh.dgid), "query_gid");
		a.ah_attr.is_global = a.ah_attr.port_num = a.ah_attr.grh.hop_limit = 1;
		a.qp_state = IBV_QPS_RTR;
		a.path_mtu = IBV_MTU_1024;
		a.dest_qp_num = destination;
		a.max_dest_rd_atomic = a.max_rd_atomic = 16;
		a.min_rnr_timer = 1;
		const int path = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		demand(!ibv_modify_qp(of, &a, path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
		a.qp_state = IBV_QPS_RTS;
		a.timeout = 12;  // 17 ms
		a.retry_cnt = 2;
		a.rnr_retry = 7;
		const int limits = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		demand(!ibv_modify_qp(of, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | limits), "RTS");
	}
	void meet() {
		put('m');
		demand(get<char>() == 'm', "both sides are at the same step");
	}
	template <class T> void put(const T& value) {
		demand(::send(socket, &value, sizeof value, MSG_NOSIGNAL) == sizeof value, "send to the other side");
	}
	template <class T> T get() {
		T value;
		demand(recv(socket, &value, sizeof value, MSG_WAITALL) == sizeof value, "receive from the other side");
		return value;
	}

	// Requests, signaled unless `signaled` is false. `offset` counts from the beginning of both
	// regions.
	void post(ibv_wr_opcode opcode, const Aim& to, std::uint64_t offset, std::uint32_t length,
		std::uint64_t local_offset = 0, std::uint64_t operand = 1) {
		ibv_sge sge{reinterpret_cast<std::uint64_t>(memory) + local_offset, length, mr->lkey};
		ibv_send_wr wr{}, *bad;
		wr.opcode = opcode;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.send_flags = signaled ? IBV_SEND_SIGNALED : 0;
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			wr.wr.atomic = {.remote_addr = to.address + offset, .compare_add = operand, .swap = 0, .rkey = to.rkey};
		else wr.wr.rdma = {.remote_addr = to.address + offset, .rkey = to.rkey};
		demand(!ibv_post_send(qp, &wr, &bad), "post_send");
	}
	void receive(std::uint64_t offset, std::uint32_t length) {
		ibv_sge sge{reinterpret_cast<std::uint64_t>(memory) + offset, length, mr->lkey};
		ibv_recv_wr wr{}, *bad;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		demand(!ibv_post_recv(qp, &wr, &bad), "post_recv");
	}
	ibv_wc_status complete() {
		ibv_wc wc;
		int got;
		while ((got = ibv_poll_cq(cq, 1, &wc)) == 0) {}
		demand(got == 1, "poll_cq");
		return wc.status;
	}
	void succeed(int count = 1) {
		for (; count > 0; --count) demand(complete() == IBV_WC_SUCCESS, "a request succeeds");
	}

	bool signaled = true;
	int socket;
	std::size_t bytes;
	ibv_context* context = nullptr;
	ibv_pd* pd = nullptr;
	ibv_comp_channel* channel = nullptr;
	ibv_cq* cq = nullptr;
	ibv_qp* qp = nullptr;
	ibv_mr* mr = nullptr;
	unsigned char* memory = nullptr;
};
