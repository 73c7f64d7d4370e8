// SPDX-License-Identifier: Apache-2.0
// failures ROW: two processes on one device, of which one makes the mistake ROW. Prints the
// statuses of the requester's completions, one a line, or its asynchronous event. The NIC explains
// each on standard error.
//
// In the row "waits" the request waits for a receive for ever; an alarm ends it.
//
// The parent is the requester, its child the responder; they exchange their numbers over a pair of
// sockets. Every wait has a limit.
#include <infiniband/verbs.h>

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

constexpr int region_bytes = 4096;
constexpr int everything =
	IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

[[noreturn]] void give_up(const char* what) {
	std::perror(what);
	std::exit(1);
}

struct Facts {
	std::uint32_t qpn, rkey;
	std::uint64_t address;
	ibv_gid gid;
};

struct Side {
	ibv_context* context = nullptr;
	ibv_pd* pd = nullptr;
	ibv_cq* cq = nullptr;
	ibv_qp* qp = nullptr;
	ibv_mr* mr = nullptr;
	char* memory = nullptr;
	int socket = -1;
	Facts own{}, peer{};

	void open(int fd, int completions = 64) {
		socket = fd;
		alarm(20);
		ibv_device** list = ibv_get_device_list(nullptr);
		if (!list || !list[0]) give_up("no device");
		context = ibv_open_device(list[0]);
		ibv_free_device_list(list);
		if (!context) give_up("ibv_open_device");
		pd = ibv_alloc_pd(context);
		cq = ibv_create_cq(context, completions, nullptr, nullptr, 0);
		if (posix_memalign(reinterpret_cast<void**>(&memory), 4096, 2 * region_bytes) != 0) give_up("memory");
		std::memset(memory, 0, 2 * region_bytes);
	}
	void make(int mr_access, ibv_pd* mr_pd = nullptr) {
		mr = ibv_reg_mr(mr_pd ? mr_pd : pd, memory, region_bytes, mr_access);
		ibv_qp_init_attr init{};
		init.qp_type = IBV_QPT_RC;
		init.send_cq = init.recv_cq = cq;
		init.cap = {16, 16, 2, 2, 0};
		qp = ibv_create_qp(pd, &init);
		if (!mr || !qp) give_up("ibv_create_qp");
		own = {qp->qp_num, mr->rkey, reinterpret_cast<std::uint64_t>(memory), {}};
		if (ibv_query_gid(context, 1, 0, &own.gid)) give_up("ibv_query_gid");
	}
	void exchange() {
		if (write(socket, &own, sizeof own) != sizeof own || read(socket, &peer, sizeof peer) != sizeof peer)
			give_up("exchange");
	}
	void await_peer() {  // and let it go on
		char byte = 1;
		if (write(socket, &byte, 1) != 1 || read(socket, &byte, 1) != 1) give_up("await_peer");
	}
	void to_init(int access) {
		ibv_qp_attr a{};
		a.qp_state = IBV_QPS_INIT;
		a.port_num = 1;
		a.qp_access_flags = static_cast<unsigned>(access);
		if (ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
			give_up("INIT");
	}
	void connect(ibv_mtu mtu = IBV_MTU_1024, int reads = 4, std::uint8_t rnr_retries = 2) {
		ibv_qp_attr a{};
		a.qp_state = IBV_QPS_RTR;
		a.path_mtu = mtu;
		a.dest_qp_num = peer.qpn;
		a.max_dest_rd_atomic = static_cast<std::uint8_t>(reads);
		a.min_rnr_timer = 1;
		a.ah_attr.is_global = 1;
		a.ah_attr.grh.dgid = peer.gid;
		a.ah_attr.grh.hop_limit = 1;
		a.ah_attr.port_num = 1;
		if (ibv_modify_qp(qp, &a,
				IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
			give_up("RTR");
		a.qp_state = IBV_QPS_RTS;
		a.timeout = 8;
		a.retry_cnt = 2;
		a.rnr_retry = rnr_retries;
		a.max_rd_atomic = 8;
		if (ibv_modify_qp(qp, &a,
				IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					IBV_QP_MAX_QP_RD_ATOMIC))
			give_up("RTS");
	}
	ibv_sge sge(std::uint32_t length) const { return {reinterpret_cast<std::uint64_t>(memory), length, mr->lkey}; }
	void post(ibv_wr_opcode opcode, std::uint32_t length, std::uint64_t address = 0, std::uint32_t rkey = 0,
		std::uint32_t lkey = 0) {
		ibv_sge list = sge(length);
		if (lkey) list.lkey = lkey;
		ibv_send_wr wr{}, *bad;
		wr.wr_id = 77;
		wr.opcode = opcode;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.sg_list = &list;
		wr.num_sge = 1;
		if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) wr.wr.atomic = {address, 1, 0, rkey};
		else wr.wr.rdma = {address, rkey};
		if (ibv_post_send(qp, &wr, &bad)) give_up("ibv_post_send");
	}
	void receive(std::uint32_t length, std::uint32_t lkey = 0) {
		ibv_sge list = sge(length);
		if (lkey) list.lkey = lkey;
		ibv_recv_wr wr{}, *bad;
		wr.wr_id = 55;
		wr.sg_list = &list;
		wr.num_sge = 1;
		if (ibv_post_recv(qp, &wr, &bad)) give_up("ibv_post_recv");
	}
	void post_bind() {
		ibv_mw* const window = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
		if (!window) give_up("ibv_alloc_mw");
		ibv_send_wr wr{}, *bad;
		wr.wr_id = 77;
		wr.opcode = IBV_WR_BIND_MW;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.bind_mw = {window, ibv_inc_rkey(window->rkey), {mr, own.address, 64, IBV_ACCESS_REMOTE_READ}};
		if (ibv_post_send(qp, &wr, &bad)) give_up("ibv_post_send");
	}
	void post_invalidate(std::uint32_t rkey) {
		ibv_send_wr wr{}, *bad;
		wr.wr_id = 77;
		wr.opcode = IBV_WR_LOCAL_INV;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.invalidate_rkey = rkey;
		if (ibv_post_send(qp, &wr, &bad)) give_up("ibv_post_send");
	}
	void print_completion() {
		ibv_wc wc{};
		while (ibv_poll_cq(cq, 1, &wc) == 0) {}
		std::printf("%s\n", ibv_wc_status_str(wc.status));
	}
	void print_event() {
		ibv_async_event event{};
		if (ibv_get_async_event(context, &event)) give_up("ibv_get_async_event");
		std::printf("%s\n", ibv_event_type_str(event.event_type));
		ibv_ack_async_event(&event);
	}
	void fail() {
		ibv_qp_attr a{};
		a.qp_state = IBV_QPS_ERR;
		if (ibv_modify_qp(qp, &a, IBV_QP_STATE)) give_up("ERR");
	}
};

void respond(std::string_view row, int fd) {
	Side s;
	s.open(fd);
	const bool other = row == "domain";
	s.make(row == "rights" ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ : everything,
		other ? ibv_alloc_pd(s.context) : nullptr);
	s.exchange();
	s.to_init(row == "queue_pair_rights" ? IBV_ACCESS_REMOTE_READ : everything);
	if (row != "not_ready") s.connect(IBV_MTU_1024, row == "reads" ? 1 : 4);
	if (row == "too_long") s.receive(16);
	if (row == "receive_key") s.receive(64, 0xbad);
	if (row == "retired") ibv_dereg_mr(s.mr);
	s.await_peer();
	if (row == "exit") _exit(3);
	if (row == "killed") kill(getpid(), SIGKILL);
	// Drives the engine until the requester is done.
	char byte;
	ibv_wc wc;
	while (recv(fd, &byte, 1, MSG_DONTWAIT) != 1) ibv_poll_cq(s.cq, 1, &wc);
	_exit(0);
}

void request(std::string_view row, int fd) {
	Side s;
	s.open(fd, row == "overrun" ? 1 : 64);
	s.make(everything);
	s.exchange();
	s.to_init(everything);
	constexpr std::uint8_t for_ever = 7;
	if (row == "waits") s.connect(IBV_MTU_1024, 4, for_ever);
	else s.connect();
	s.await_peer();
	const std::uint64_t to = s.peer.address;
	const std::uint32_t rkey = s.peer.rkey;
	if (row == "exit" || row == "killed") {
		int status;
		wait(&status);
	}
	if (row == "overrun") {
		for (int i = 0; i < 3; ++i) s.post(IBV_WR_RDMA_WRITE, 64, to, rkey);
		s.print_event();
		const char byte = 1;
		if (write(fd, &byte, 1) != 1) give_up("end");
		return;
	}
	if (row == "rnr" || row == "waits" || row == "too_long" || row == "receive_key" || row == "not_ready" ||
		row == "exit" || row == "killed")
		s.post(IBV_WR_SEND, 64);
	else if (row == "unknown") s.post(IBV_WR_RDMA_WRITE, 64, to, rkey ^ 0x5500);
	else if (row == "bounds") s.post(IBV_WR_RDMA_WRITE, 64, to + region_bytes - 16, rkey);
	else if (row == "unaligned") s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, 8, to + 4, rkey);
	else if (row == "bind") s.post_bind();
	else if (row == "invalidate") s.post_invalidate(s.mr->rkey);
	else if (row == "local_key") s.post(IBV_WR_SEND, 64, 0, 0, 0xbad);
	else if (row == "flush") {
		for (int i = 0; i < 3; ++i) s.receive(64);
		s.fail();
	} else s.post(IBV_WR_RDMA_WRITE, 64, to, rkey);
	s.print_completion();
	const char byte = 1;
	if (row != "exit" && row != "killed" && write(fd, &byte, 1) != 1) give_up("end");
}

}  // namespace

int main(int argc, char** argv) {
	if (argc != 2) return 2;
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) give_up("socketpair");
	if (fork() == 0) respond(argv[1], ends[1]);
	close(ends[1]);
	request(argv[1], ends[0]);
	std::fflush(stdout);
	while (wait(nullptr) > 0) {}
}
