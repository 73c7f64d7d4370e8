// SPDX-License-Identifier: Apache-2.0
// mailbox [notify]: a writer puts 200 records of 1 KiB into the memory of a reader, each by one
// RDMA WRITE. Each byte of a record is its number: the reader waits until the last one changes, and
// then reads the record.
//
// The program has a bug, which no test on a kind NIC finds: docs/adversary.md finds it. With
// `notify` the bug is mended. The exit code is 0 if every record was whole.
//
//     gcc -O2 -o mailbox mailbox.c -libverbs
#include <infiniband/verbs.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 200, BYTES = 1024 };

struct address {
	union ibv_gid gid;
	uint32_t qpn, rkey;
	uint64_t memory;
};

struct end {
	struct ibv_context* context;
	struct ibv_pd* pd;
	struct ibv_cq* cq;
	struct ibv_qp* qp;
	struct ibv_mr* mr;
	struct address peer;
	int fd;  // the reader asks for the next record by it
	volatile unsigned char record[BYTES];
};

static void give_up(const char* what) {
	perror(what);
	exit(1);
}

static void modify(struct end* e, struct ibv_qp_attr attributes, int mask) {
	if (ibv_modify_qp(e->qp, &attributes, mask | IBV_QP_STATE)) give_up("ibv_modify_qp");
}

// Makes a queue pair, and connects it to that of the other process, whose address comes by `fd`.
static struct end* open_end(int fd) {
	struct end* e = calloc(1, sizeof *e);
	struct ibv_device** list = ibv_get_device_list(NULL);
	if (!list || !list[0] || !(e->context = ibv_open_device(list[0]))) give_up("no RDMA device");
	e->fd = fd;
	e->pd = ibv_alloc_pd(e->context);
	e->cq = ibv_create_cq(e->context, 16, NULL, NULL, 0);
	e->mr = ibv_reg_mr(e->pd, (void*)e->record, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_qp_init_attr init = {.send_cq = e->cq, .recv_cq = e->cq, .qp_type = IBV_QPT_RC};
	init.cap = (struct ibv_qp_cap){.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1};
	if (!(e->qp = ibv_create_qp(e->pd, &init))) give_up("ibv_create_qp");
	struct address own = {.qpn = e->qp->qp_num, .rkey = e->mr->rkey, .memory = (uintptr_t)e->record};
	if (ibv_query_gid(e->context, 1, 0, &own.gid)) give_up("ibv_query_gid");
	if (write(fd, &own, sizeof own) != sizeof own || read(fd, &e->peer, sizeof own) != sizeof own) give_up("exchange");
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
	modify(e, a, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = e->peer.qpn};
	a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = e->peer.gid, .hop_limit = 64}};
	modify(e, a,
		IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};
	modify(e, a, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	return e;
}

static void await_completion(struct end* e) {
	struct ibv_wc wc;
	while (ibv_poll_cq(e->cq, 1, &wc) == 0) {}
	if (wc.status != IBV_WC_SUCCESS) give_up(ibv_wc_status_str(wc.status));
}

static void put(struct end* e, enum ibv_wr_opcode opcode) {
	struct ibv_sge sge = {(uintptr_t)e->record, BYTES, e->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode}, *bad;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = e->peer.memory;
	wr.wr.rdma.rkey = e->peer.rkey;
	if (ibv_post_send(e->qp, &wr, &bad)) give_up("ibv_post_send");
	await_completion(e);
}

static void write_records(int fd, int notifies) {
	struct end* e = open_end(fd);
	char byte;
	for (int n = 1; n <= RECORDS; ++n) {
		if (read(fd, &byte, 1) != 1) give_up("the reader has ended");
		memset((void*)e->record, n, BYTES);
		put(e, notifies ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE);
	}
}

static void await_record(struct end* e, unsigned char n, int notified) {
	if (notified) return await_completion(e);
	// The bug: the last byte may be there before the others (ibv_query_qp_data_in_order(3)).
	while (e->record[BYTES - 1] != n) {}
}

static int read_records(int fd, int notified) {
	struct end* e = open_end(fd);
	int wrong = 0;
	for (int n = 1; n <= RECORDS; ++n) {
		struct ibv_recv_wr wr = {0}, *bad;
		if (notified && ibv_post_recv(e->qp, &wr, &bad)) give_up("ibv_post_recv");
		if (write(fd, "", 1) != 1) give_up("the writer has ended");
		await_record(e, (unsigned char)n, notified);
		int old = 0;
		for (int i = 0; i < BYTES; ++i) old += e->record[i] != (unsigned char)n;
		if (old && !wrong++) printf("record %d: %d bytes are old\n", n, old);
	}
	printf("%d records, %d are not whole\n", RECORDS, wrong);
	return wrong != 0;
}

int main(int argc, char** argv) {
	const int notifies = argc > 1 && strcmp(argv[1], "notify") == 0;
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) give_up("socketpair");
	const pid_t writer = fork();
	if (writer == 0) {
		write_records(ends[1], notifies);
		return 0;
	}
	const int wrong = read_records(ends[0], notifies);
	waitpid(writer, NULL, 0);
	return wrong;
}
