// SPDX-License-Identifier: Apache-2.0
/* Usage: litmus ROUNDS [TEST...]: runs each test, and prints its name, the number of rounds, and in
 * how many of them its outcome was seen. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "litmus.h"

enum { depth = 64, patience_s = 20 };
static const uint32_t q_key = 0x1234;

_Noreturn void fail(const char* what) {
	fprintf(stderr, "litmus: %s (errno %d: %s)\n", what, errno, strerror(errno));
	exit(1);
}

double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Both processes call it, and each gets what the other has given. */
static void exchange(struct side* s, const void* mine, void* theirs, size_t size) {
	if (send(s->socket, mine, size, MSG_NOSIGNAL) != (ssize_t)size) fail("the other process has ended");
	if (recv(s->socket, theirs, size, MSG_WAITALL) != (ssize_t)size) fail("the other process has ended");
}

uint64_t meet(struct side* s, uint64_t value) {
	uint64_t theirs;
	exchange(s, &value, &theirs, sizeof value);
	return theirs;
}

void await(const struct side* s, enum word w) {
	const double begin = now();
	for (unsigned spins = 1; load(s, w) == 0; spins++) {
		if (spins % 1024 == 0 && now() - begin > patience_s) fail("a word does not change");
		if (spins % 64 == 0) sched_yield();
	}
}

void dawdle(const struct side* s) {
	for (volatile unsigned i = 0, n = (unsigned)s->round * 2654435761u >> 26; i < n * 256; i++) {}
}

static void post(struct side* s, enum queue on, struct ibv_send_wr* wr, volatile void* here, uint32_t length) {
	struct ibv_sge sge = {(uintptr_t)here, length, s->mr->lkey};
	wr->wr_id = on;
	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags |= IBV_SEND_SIGNALED;
	struct ibv_send_wr* bad;
	const int error = ibv_post_send(s->qp[on], wr, &bad);
	if (error) errno = error, fail("ibv_post_send");
	s->posted[on]++;
}

static uint64_t there(const struct side* s, const volatile void* here) {
	return s->remote + (uint64_t)((const volatile char*)here - (char*)s->memory);
}

static void rdma(struct side* s, enum queue on, enum ibv_wr_opcode opcode, volatile void* here, volatile void* remote,
	uint32_t length, int flags) {
	struct ibv_send_wr wr = {.opcode = opcode, .send_flags = (unsigned)flags};
	wr.wr.rdma.remote_addr = there(s, remote);
	wr.wr.rdma.rkey = s->rkey;
	post(s, on, &wr, here, length);
}

#define WORD(w) (&s->memory->word[w].value)

void put(struct side* s, enum queue on, enum word to, enum word from, int flags) {
	rdma(s, on, IBV_WR_RDMA_WRITE, WORD(from), WORD(to), 8, flags);
}
void put_imm(struct side* s, enum queue on, enum word to, enum word from) {
	rdma(s, on, IBV_WR_RDMA_WRITE_WITH_IMM, WORD(from), WORD(to), 8, 0);
}
void get(struct side* s, enum queue on, enum word to, enum word from, int flags) {
	rdma(s, on, IBV_WR_RDMA_READ, WORD(to), WORD(from), 8, flags);
}
void get_two(struct side* s, enum queue on, enum word to, enum word from) {
	rdma(s, on, IBV_WR_RDMA_READ, WORD(to), WORD(from), sizeof s->memory->word[0] + 8, 0);
}
void put_block(struct side* s, enum queue on) {
	rdma(s, on, IBV_WR_RDMA_WRITE, s->memory->block, s->memory->block, block_size, 0);
}

void send_word(struct side* s, enum queue on, enum word from, uint32_t immediate, int flags) {
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .send_flags = (unsigned)flags, .imm_data = immediate};
	if (on == ud) {
		wr.wr.ud.ah = s->ah;
		wr.wr.ud.remote_qpn = s->remote_qpn[ud];
		wr.wr.ud.remote_qkey = q_key;
	}
	post(s, on, &wr, WORD(from), 8);
}

static void atomic(struct side* s, enum queue on, enum ibv_wr_opcode opcode, enum word to, enum word from,
	uint64_t compare_add, uint64_t swap) {
	struct ibv_send_wr wr = {.opcode = opcode};
	wr.wr.atomic.remote_addr = there(s, WORD(from));
	wr.wr.atomic.rkey = s->rkey;
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	post(s, on, &wr, WORD(to), 8);
}

void fetch_add(struct side* s, enum queue on, enum word word, uint64_t value) {
	atomic(s, on, IBV_WR_ATOMIC_FETCH_AND_ADD, scratch, word, value, 0);
}
void compare_swap(struct side* s, enum queue on, enum word to, enum word from, uint64_t expected, uint64_t value) {
	atomic(s, on, IBV_WR_ATOMIC_CMP_AND_SWP, to, from, expected, value);
}

static bool take(struct ibv_cq* cq, struct ibv_wc* wc) {
	const int taken = ibv_poll_cq(cq, 1, wc);
	if (taken < 0) fail("ibv_poll_cq");
	if (taken && wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "litmus: %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
	return taken != 0;
}

void poll_sends(struct side* s, enum queue on) {
	const double begin = now();
	struct ibv_wc wc;
	while (s->done[on] != s->posted[on]) {
		if (!take(s->send_cq, &wc)) {
			if (now() - begin > patience_s) fail("a request does not complete");
			continue;
		}
		s->done[wc.wr_id]++;
		if (!s->order[wc.wr_id]) s->order[wc.wr_id] = ++s->completions;
	}
}

bool poll_once(struct side* s, enum queue on) {
	struct ibv_wc wc;
	if (!take(s->receive_cq[on], &wc)) return false;
	s->immediate[on] = wc.imm_data;
	s->receive[on] = wc.wr_id;
	return true;
}

void poll_receive(struct side* s, enum queue on) {
	const double begin = now();
	while (!poll_once(s, on))
		if (now() - begin > patience_s) fail("no message arrives");
}

static void post_receive(struct side* s, enum queue on) {
	struct ibv_sge sge = {(uintptr_t)s->memory->received, 256, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = s->receives++, .sg_list = &sge, .num_sge = 1}, *bad;
	if (ibv_post_recv(s->qp[on], &wr, &bad)) fail("ibv_post_recv");
}

/* --- Connections */

struct address {
	uint32_t qpn[queues], rkey;
	uint64_t memory;
	union ibv_gid gid;
};

static void open_side(struct side* s) {
	int count = 0;
	struct ibv_device** list = ibv_get_device_list(&count);
	if (!list || !count) fail("there is no device");
	s->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!s->context || !(s->pd = ibv_alloc_pd(s->context))) fail("the device cannot be opened");
	s->memory = mmap(NULL, sizeof *s->memory, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	s->mr = ibv_reg_mr(s->pd, s->memory, sizeof *s->memory,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	s->channel = ibv_create_comp_channel(s->context);
	s->send_cq = ibv_create_cq(s->context, 2 * depth, NULL, NULL, 0);
	if (!s->mr || !s->send_cq || !s->channel) fail("no memory region or completion queue");
	for (int i = 0; i < queues; i++) {
		s->receive_cq[i] = ibv_create_cq(s->context, depth, NULL, s->channel, 0);
		struct ibv_qp_init_attr init = {.send_cq = s->send_cq,
			.recv_cq = s->receive_cq[i],
			.cap = {depth, depth, 1, 1, 16},
			.qp_type = i == ud ? IBV_QPT_UD
				: i == uc      ? IBV_QPT_UC
							   : IBV_QPT_RC};
		s->qp[i] = ibv_create_qp(s->pd, &init);
		if (!s->qp[i]) fail("no queue pair");
	}
}

static void modify(struct ibv_qp* qp, struct ibv_qp_attr attributes, int mask) {
	const int error = ibv_modify_qp(qp, &attributes, mask | IBV_QP_STATE);
	if (error) errno = error, fail("ibv_modify_qp");
}

static void connect_to(struct ibv_qp* qp, uint32_t peer, union ibv_gid gid) {
	const bool reliable = qp->qp_type == IBV_QPT_RC;
	const int access = IBV_ACCESS_REMOTE_WRITE | (reliable ? IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC : 0);
	modify(qp, (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access},
		IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(qp,
		(struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
			.path_mtu = IBV_MTU_1024,
			.dest_qp_num = peer,
			.max_dest_rd_atomic = 16,
			.min_rnr_timer = 1,
			.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}}},
		IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			(reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	modify(qp,
		(struct ibv_qp_attr){
			.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16},
		IBV_QP_SQ_PSN |
			(reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0));
}

static void prepare_ud(struct side* s, union ibv_gid gid) {
	modify(s->qp[ud], (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = q_key},
		IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	modify(s->qp[ud], (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR}, 0);
	modify(s->qp[ud], (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS}, IBV_QP_SQ_PSN);
	struct ibv_ah_attr attributes = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .hop_limit = 1}};
	s->ah = ibv_create_ah(s->pd, &attributes);
	if (!s->ah) fail("no address handle");
}

static void connect_side(struct side* s) {
	struct address mine = {.rkey = s->mr->rkey, .memory = (uintptr_t)s->memory}, theirs;
	for (int i = 0; i < queues; i++) mine.qpn[i] = s->qp[i]->qp_num;
	if (ibv_query_gid(s->context, 1, 0, &mine.gid)) fail("ibv_query_gid");
	exchange(s, &mine, &theirs, sizeof mine);
	s->remote = theirs.memory;
	s->rkey = theirs.rkey;
	memcpy(s->remote_qpn, theirs.qpn, sizeof theirs.qpn);
	for (int i = 0; i < ud; i++) connect_to(s->qp[i], theirs.qpn[i], theirs.gid);
	prepare_ud(s, theirs.gid);
	meet(s, 0);
}

/* --- Rounds */

static void begin_round(struct side* s, const struct test* test, int round, bool second) {
	memset(s->memory, 0, sizeof *s->memory);
	store(s, one, 1), store(s, two, 2), store(s, ten, 10);
	memset(s->r, 0, sizeof s->r);
	memset(s->order, 0, sizeof s->order);
	s->completions = 0;
	s->round = round;
	if (second) {
		for (int i = 0; i < queues; i++)
			for (unsigned n = 0; n < test->receives[i]; n++) post_receive(s, i);
		if (test->prepare) test->prepare(s);
	}
	meet(s, 0);
}

/* All that the round has begun is over: a READ completes after all that came before it. */
static void end_round(struct side* s) {
	for (int i = 0; i < queues; i++) {
		if (i < reliable_queues) get(s, i, scratch, scratch, 0);
		poll_sends(s, i);
	}
	meet(s, 0);
	for (int w = 0; w < words; w++) s->final[w] = load(s, w);
}

static int run(struct side* s, const struct test* test, int rounds, bool second) {
	int seen = 0;
	for (int round = 0; round < rounds; round++) {
		begin_round(s, test, round, second);
		(second ? test->second : test->first)(s);
		end_round(s);
		struct side other = {0};
		exchange(s, s->r, other.r, sizeof other.r);
		exchange(s, s->final, other.final, sizeof other.final);
		exchange(s, s->order, other.order, sizeof other.order);
		seen += second ? test->seen(&other, s) : test->seen(s, &other);
	}
	return seen;
}

static bool is_wanted(const char* name, int count, char** names) {
	for (int i = 0; i < count; i++)
		if (strcmp(name, names[i]) == 0) return true;
	return count == 0;
}

int main(int argc, char** argv) {
	if (argc < 2) return fprintf(stderr, "usage: litmus ROUNDS [TEST...]\n"), 2;
	const int rounds = atoi(argv[1]);
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets)) fail("socketpair");
	const pid_t child = fork();
	if (child < 0) fail("fork");
	struct side side = {.socket = sockets[child == 0]};
	close(sockets[child != 0]);
	open_side(&side);
	connect_side(&side);
	const struct test* const tables[] = {writes, reads, atomics, others};
	for (int t = 0; t < 4; t++)
		for (const struct test* test = tables[t]; test->name; test++) {
			if (!is_wanted(test->name, argc - 2, argv + 2)) continue;
			const int divisor = test->rounds_divisor ? test->rounds_divisor : 1, n = (rounds + divisor - 1) / divisor;
			const int seen = run(&side, test, n, child == 0);
			if (child) printf("%s %d %d\n", test->name, n, seen), fflush(stdout);
		}
	if (child == 0) return 0;
	int status;
	waitpid(child, &status, 0);
	return status != 0;
}
