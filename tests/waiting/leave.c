// SPDX-License-Identifier: Apache-2.0
// Threads that leave a blocking verb without returning from it, by cancellation or by siglongjmp()
// out of a signal handler. Afterwards events must still arrive.
//
//   leave WAY VERB TIMES
//
// WAY is cancel or jump. VERB is get_cq_event, get_async_event, destroy_cq or get_cm_event. The
// verb is left TIMES times; then a child process sends a message, and the parent polls the
// descriptor of its completion channel, which only the NIC's own thread can make readable.
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                                      \
	do                                                                                       \
		if (!(condition)) fprintf(stderr, "%s: %s\n", #condition, strerror(errno)), exit(1); \
	while (0)

enum { EVENT_MS = 5000 };

static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_comp_channel* channel;
static struct ibv_cq* cq;
static struct ibv_qp* qp;
static struct ibv_mr* mr;
static struct rdma_event_channel* cm_events;
static struct ibv_comp_channel* quiet_channel;  // for the CQ that is destroyed
static char buffer[64];
static const char* verb;
static atomic_int inside;  // the thread that blocks, or 0
static sigjmp_buf before;

static void make_objects(void) {
	int count;
	struct ibv_device** list = ibv_get_device_list(&count);
	MUST(list);
	for (int i = 0; i < count; ++i)
		if (strcmp(ibv_get_device_name(list[i]), "vb_lo") == 0) MUST(context = ibv_open_device(list[i]));
	MUST(context);
	MUST(pd = ibv_alloc_pd(context));
	MUST(channel = ibv_create_comp_channel(context));
	MUST(quiet_channel = ibv_create_comp_channel(context));
	MUST(cq = ibv_create_cq(context, 16, NULL, channel, 0));
	MUST(mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE));
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {8, 8, 1, 1, 0}};
	MUST(qp = ibv_create_qp(pd, &init));
}

static void connect_over(int other) {
	struct {
		uint32_t qpn;
		union ibv_gid gid;
	} mine = {.qpn = qp->qp_num}, theirs;
	MUST(ibv_query_gid(context, 1, 0, &mine.gid) == 0);
	MUST(write(other, &mine, sizeof mine) == sizeof mine && read(other, &theirs, sizeof theirs) == sizeof theirs);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = theirs.qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = theirs.gid, .hop_limit = 64}}};
	MUST(!ibv_modify_qp(qp, &rtr,
		IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			IBV_QP_MIN_RNR_TIMER));
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	MUST(!ibv_modify_qp(qp, &rts,
		IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

// A CQ of which an event was fetched and not acknowledged, so that destroying it blocks. A queue
// pair that flushes a receive raises the event.
static struct ibv_cq* unacknowledged_cq(void) {
	struct ibv_cq* const one = ibv_create_cq(context, 4, NULL, quiet_channel, 0);
	MUST(one && ibv_req_notify_cq(one, 0) == 0);
	struct ibv_qp_init_attr init = {.send_cq = one, .recv_cq = one, .qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_qp* const flushed = ibv_create_qp(pd, &init);
	MUST(flushed);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	MUST(!ibv_modify_qp(flushed, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	struct ibv_sge sge = {(uintptr_t)buffer, sizeof buffer, mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	MUST(!ibv_post_recv(flushed, &wr, &bad));
	attr.qp_state = IBV_QPS_ERR;
	MUST(!ibv_modify_qp(flushed, &attr, IBV_QP_STATE));
	struct ibv_cq* which;
	void* unused;
	MUST(ibv_get_cq_event(quiet_channel, &which, &unused) == 0 && which == one);
	MUST(!ibv_destroy_qp(flushed));
	return one;
}

static struct ibv_cq* left_cq;

static void block(void) {
	struct ibv_cq* which;
	void* unused;
	struct ibv_async_event async;
	struct rdma_cm_event* cm;
	atomic_store(&inside, gettid());
	if (strcmp(verb, "get_cq_event") == 0) ibv_get_cq_event(channel, &which, &unused);
	else if (strcmp(verb, "get_async_event") == 0) ibv_get_async_event(context, &async);
	else if (strcmp(verb, "get_cm_event") == 0) rdma_get_cm_event(cm_events, &cm);
	else ibv_destroy_cq(left_cq);
	fprintf(stderr, "%s returned\n", verb), exit(1);
}

static void* blocked_thread(void* unused) {
	block();
	return unused;
}

static void jump(int unused) {
	(void)unused;
	siglongjmp(before, 1);
}

// True when the thread sleeps in the kernel.
static bool sleeps(int tid) {
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
	FILE* const file = fopen(path, "r");
	if (!file) return false;
	const size_t length = fread(text, 1, sizeof text - 1, file);
	fclose(file);
	text[length] = 0;
	const char* const end = strrchr(text, ')');
	return end && end[2] == 'S';
}

// Waits until the thread has slept at each of ten looks, a millisecond apart: it is in the verb.
static void wait_until_blocked(void) {
	for (int in_a_row = 0; in_a_row < 10;) {
		const int tid = atomic_load(&inside);
		in_a_row = tid && sleeps(tid) ? in_a_row + 1 : 0;
		usleep(1000);
	}
}

static void* interrupt_main(void* main_thread) {
	wait_until_blocked();
	pthread_kill(*(pthread_t*)main_thread, SIGUSR1);
	return NULL;
}

static void leave_once(bool cancelled) {
	atomic_store(&inside, 0);
	if (strcmp(verb, "destroy_cq") == 0) left_cq = unacknowledged_cq();
	pthread_t thread;
	if (cancelled) {
		void* result;
		MUST(pthread_create(&thread, NULL, blocked_thread, NULL) == 0);
		wait_until_blocked();
		pthread_cancel(thread);
		pthread_join(thread, &result);
		MUST(result == PTHREAD_CANCELED);
	} else {
		static pthread_t self;
		self = pthread_self();
		MUST(pthread_create(&thread, NULL, interrupt_main, &self) == 0);
		if (sigsetjmp(before, 1) == 0) block();
		pthread_join(thread, NULL);
	}
	if (strcmp(verb, "destroy_cq") == 0) {
		ibv_ack_cq_events(left_cq, 1);
		MUST(ibv_destroy_cq(left_cq) == 0);
	}
}

int main(int argc, char** argv) {
	if (argc != 4) return fprintf(stderr, "usage: %s cancel|jump VERB TIMES\n", argv[0]), 2;
	verb = argv[2];
	signal(SIGUSR1, jump);
	int ends[2];
	MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	const bool child = fork() == 0;
	if (child) prctl(PR_SET_PDEATHSIG, SIGKILL);
	const int other = ends[child];
	close(ends[!child]);
	make_objects();
	connect_over(other);
	char byte = 0;
	struct ibv_sge sge = {(uintptr_t)buffer, sizeof buffer, mr->lkey};
	if (child) {
		MUST(read(other, &byte, 1) == 1);
		struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr* bad;
		MUST(ibv_post_send(qp, &wr, &bad) == 0);
		return read(other, &byte, 1) < 0;  // until the parent ends
	}
	MUST(cm_events = rdma_create_event_channel());
	for (int i = 0; i < atoi(argv[3]); ++i) leave_once(strcmp(argv[1], "cancel") == 0);

	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	MUST(ibv_post_recv(qp, &wr, &bad) == 0);
	MUST(ibv_req_notify_cq(cq, 0) == 0);
	MUST(write(other, &byte, 1) == 1);
	struct pollfd readable = {channel->fd, POLLIN, 0};
	if (poll(&readable, 1, EVENT_MS) != 1) return fprintf(stderr, "no event\n"), 1;
	struct ibv_cq* which;
	void* unused;
	MUST(ibv_get_cq_event(channel, &which, &unused) == 0);
	ibv_ack_cq_events(which, 1);
	struct ibv_wc wc;
	MUST(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	return 0;
}
