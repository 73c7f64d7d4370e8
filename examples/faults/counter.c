// SPDX-License-Identifier: Apache-2.0
// counter [remember]: a client adds 1 to a counter of its server 200 times, by datagrams (UD). A
// request without a reply is sent again after 100 ms.
//
// The program has a bug, which no test on a good network finds: docs/faults.md finds it. With
// `remember` the bug is mended. The exit code is 0 if the counter ends at 200.
//
//     gcc -O2 -o counter counter.c -libverbs
#include <infiniband/verbs.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REQUESTS = 200, PATIENCE_MS = 100, Q_KEY = 0x11111111, GRH = 40, SLOTS = 32, BYTES = 64 };

struct message {
	uint32_t number;  // the request's, from 1
	uint32_t total;   // reply: the counter
};

struct address {
	union ibv_gid gid;
	uint32_t qpn;
};

struct end {
	struct ibv_context* context;
	struct ibv_pd* pd;
	struct ibv_cq* cq;
	struct ibv_qp* qp;
	struct ibv_mr* mr;
	struct ibv_ah* peer;
	uint32_t peer_qpn;
	char memory[SLOTS + 1][BYTES];  // the last one is for sending
};

static void give_up(const char* what) {
	perror(what);
	exit(1);
}

static void post_receive(struct end* e, uint64_t slot) {
	struct ibv_sge sge = {(uintptr_t)e->memory[slot], BYTES, e->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
	if (ibv_post_recv(e->qp, &wr, &bad)) give_up("ibv_post_recv");
}

static void send_message(struct end* e, struct message m) {
	memcpy(e->memory[SLOTS], &m, sizeof m);
	struct ibv_sge sge = {(uintptr_t)e->memory[SLOTS], sizeof m, e->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = SLOTS, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.ud.ah = e->peer;
	wr.wr.ud.remote_qpn = e->peer_qpn;
	wr.wr.ud.remote_qkey = Q_KEY;
	if (ibv_post_send(e->qp, &wr, &bad)) give_up("ibv_post_send");
}

static double now_ms(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

// Returns 1 and the next message, or 0 if none comes within `patience_ms`.
static int receive(struct end* e, struct message* m, double patience_ms) {
	const double deadline = now_ms() + patience_ms;
	do {
		struct ibv_wc wc;
		if (ibv_poll_cq(e->cq, 1, &wc) == 0 || wc.wr_id == SLOTS) continue;
		if (wc.status != IBV_WC_SUCCESS) exit(1);
		memcpy(m, e->memory[wc.wr_id] + GRH, sizeof *m);
		post_receive(e, wc.wr_id);
		return 1;
	} while (now_ms() < deadline);
	return 0;
}

// Makes a queue pair, and exchanges its address with the other process through `fd`.
static struct end* open_end(int fd) {
	struct end* e = calloc(1, sizeof *e);
	struct ibv_device** list = ibv_get_device_list(NULL);
	if (!list || !list[0] || !(e->context = ibv_open_device(list[0]))) give_up("no RDMA device");
	e->pd = ibv_alloc_pd(e->context);
	e->cq = ibv_create_cq(e->context, 2 * SLOTS, NULL, NULL, 0);
	e->mr = ibv_reg_mr(e->pd, e->memory, sizeof e->memory, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr init = {.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_UD};
	init.cap = (struct ibv_qp_cap){.max_send_wr = SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 1, .max_recv_sge = 1};
	if (!(e->qp = ibv_create_qp(e->pd, &init))) give_up("ibv_create_qp");
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = Q_KEY};
	int failed = ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	a.qp_state = IBV_QPS_RTR;
	failed |= ibv_modify_qp(e->qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	failed |= ibv_modify_qp(e->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	if (failed) give_up("ibv_modify_qp");
	for (int i = 0; i < SLOTS; ++i) post_receive(e, i);
	struct address own = {.qpn = e->qp->qp_num}, peer;
	if (ibv_query_gid(e->context, 1, 0, &own.gid)) give_up("ibv_query_gid");
	if (write(fd, &own, sizeof own) != sizeof own || read(fd, &peer, sizeof peer) != sizeof peer) give_up("exchange");
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer.gid, .hop_limit = 64}};
	if (!(e->peer = ibv_create_ah(e->pd, &ah))) give_up("ibv_create_ah");
	e->peer_qpn = peer.qpn;
	return e;
}

static void serve(int fd, int remembers) {
	struct end* e = open_end(fd);
	uint32_t total = 0, last = 0;
	struct message m;
	char byte;
	while (recv(fd, &byte, 1, MSG_DONTWAIT) < 0) {  // until the client has closed its end
		if (!receive(e, &m, 1)) continue;
		// The bug: a request that comes again, because the reply was lost, is added again.
		if (!remembers || m.number != last) ++total;
		last = m.number;
		send_message(e, (struct message){m.number, total});
	}
}

static int ask(int fd) {
	struct end* e = open_end(fd);
	struct message reply = {0, 0};
	for (uint32_t number = 1; number <= REQUESTS; ++number) do {
			send_message(e, (struct message){number, 0});
			while (receive(e, &reply, PATIENCE_MS) && reply.number != number) {}
		} while (reply.number != number);
	printf("%d requests, the counter is %u\n", REQUESTS, reply.total);
	return reply.total != REQUESTS;
}

int main(int argc, char** argv) {
	const int remembers = argc > 1 && strcmp(argv[1], "remember") == 0;
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) give_up("socketpair");
	const pid_t server = fork();
	if (server == 0) {
		close(ends[0]);
		serve(ends[1], remembers);
		return 0;
	}
	close(ends[1]);
	const int wrong = ask(ends[0]);
	close(ends[0]);
	waitpid(server, NULL, 0);
	return wrong;
}
