// SPDX-License-Identifier: Apache-2.0
/* A UD sender on vb_lo that is controlled by commands: `burst GID QPN BYTES` reads lines from its
 * standard input and answers each by one line.
 *
 *     send N    send N messages, which continue the numbers of the run,
 *               and wait until all are complete                           answer: sent N
 *     ask       ask ud_server how many messages of the run it has         answer: has N
 *
 * Each message carries a stamp at its beginning and at its end, as those of the measurement do: 16
 * bits of run and 48 bits of number. A link keeps the order, so by its answer the server has also
 * read all messages that were sent before the question.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	q_key = 0x11111111,
	grh_bytes = 40,
	depth = 128,
	message_max = 4096,
	report_bytes = 64,
	question_imm = 0x454e4421
};
static const uint64_t run = (uint64_t)0x1234 << 48;

static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static struct ibv_ah *ah;
static uint32_t server_qpn;
static struct {
	unsigned char out[message_max], in[grh_bytes + report_bytes];
} memory;

static void demand(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "burst: %s\n", what);
	exit(1);
}

static void open_qp(const char *gid)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device = NULL;
	union ibv_gid to;

	demand(inet_pton(AF_INET6, gid, to.raw) == 1, "bad GID");
	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), "vb_lo"))
			device = ibv_open_device(list[i]);
	demand(device != NULL, "no vb_lo");
	struct ibv_pd *pd = ibv_alloc_pd(device);
	cq = ibv_create_cq(device, 2 * depth, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, &memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	qp = ibv_create_qp(pd, &init);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = q_key};
	demand(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY), "INIT");
	attr.qp_state = IBV_QPS_RTR;
	demand(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "RTR");
	attr.qp_state = IBV_QPS_RTS;
	demand(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "RTS");
	struct ibv_ah_attr route = {.is_global = 1, .port_num = 1, .grh = {.dgid = to, .hop_limit = 64}};
	demand((ah = ibv_create_ah(pd, &route)) != NULL, "no route");
}

static void post_receive(void)
{
	struct ibv_sge piece = {.addr = (uintptr_t)memory.in, .length = sizeof memory.in, .lkey = mr->lkey};
	struct ibv_recv_wr request = {.sg_list = &piece, .num_sge = 1}, *bad;

	demand(!ibv_post_recv(qp, &request, &bad), "ibv_post_recv");
}

static void post(uint32_t bytes, int is_question)
{
	struct ibv_sge piece = {.addr = (uintptr_t)memory.out, .length = bytes, .lkey = mr->lkey};
	struct ibv_send_wr request = {.sg_list = &piece, .num_sge = 1,
		.opcode = is_question ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED, .imm_data = htonl(question_imm),
		.wr.ud = {.ah = ah, .remote_qpn = server_qpn, .remote_qkey = q_key}}, *bad;

	demand(!ibv_post_send(qp, &request, &bad), "ibv_post_send");
}

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Waits for a completion with this opcode. Returns 0 when the time is over. */
static int await(enum ibv_wc_opcode opcode, double patience_s)
{
	struct ibv_wc wc;
	const double end = now_s() + patience_s;

	do {
		while (ibv_poll_cq(cq, 1, &wc) == 0)
			if (now_s() > end)
				return 0;
		demand(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	} while (wc.opcode != opcode);
	return 1;
}

/* Returns the number of messages that the server has. A question or its answer may be lost, as any
 * datagram; then the question is repeated. */
static uint64_t ask(uint64_t question)
{
	struct {
		uint64_t question, message_max, delivered;
	} answer;

	for (int attempt = 0; attempt < 100; attempt++) {
		memcpy(memory.out, &question, sizeof question);
		post(sizeof question, 1);
		while (await(IBV_WC_RECV, 0.1)) {
			memcpy(&answer, memory.in + grh_bytes, sizeof answer);
			post_receive();
			if (answer.question == question)
				return answer.delivered;
		}
	}
	demand(0, "no answer");
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t next = 0;
	unsigned long count;
	char line[64];

	demand(argc == 4 && (server_qpn = (uint32_t)atol(argv[2])) != 0, "usage: burst GID QPN BYTES");
	const uint32_t bytes = (uint32_t)atol(argv[3]);
	demand(bytes >= 16 && bytes <= message_max, "a message has 16 to 4096 bytes");
	open_qp(argv[1]);
	post_receive();
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "send %lu", &count) == 1) {
			for (unsigned long i = 0; i < count; i++, next++) {
				const uint64_t stamp = run | next;
				memcpy(memory.out, &stamp, sizeof stamp);
				memcpy(memory.out + bytes - sizeof stamp, &stamp, sizeof stamp);
				post(bytes, 0);
				demand(await(IBV_WC_SEND, 10), "no completion"); /* the buffer is reused */
			}
			printf("sent %lu\n", count);
		} else {
			printf("has %lu\n", (unsigned long)ask(run | next));
		}
	}
	return 0;
}
