// SPDX-License-Identifier: Apache-2.0
/* An Unreliable Datagram (UD) sender in plain C on libibverbs: one message to a ud_server.
 *
 *   gcc ud_client.c -o ud_client -lrdmacm -libverbs
 *   ./ud_client <server_gid> <server_qpn> <qkey>
 *   ./ud_client ::ffff:10.0.0.1 13110 0x11111111       (an example)
 *
 * "Message sent." is printed after the completion. A UD completion means that the message has left
 * this NIC, not that it arrived: datagrams are not acknowledged, and only the server knows.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

enum { port_number = 1, completion_timeout_s = 5 };

static struct client {
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct ibv_ah *ah;
	int gid_index;
	char message[64];
} c = {.message = "Hello from ud_client"};

struct destination {
	union ibv_gid gid;
	uint32_t qpn, q_key;
};

static int fail(const char *what, int error)
{
	fprintf(stderr, "[UD Client] %s: %s\n", what, strerror(error));
	return -1;
}

static int check(const char *what, int error)
{
	return error ? fail(what, error) : 0;
}

/* Parses a decimal or 0x-hexadecimal number with nothing before or after it. */
static int parse_number(const char *text, uint32_t max, uint32_t *value)
{
	char *end;
	int hexadecimal = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');

	if (text[0] < '0' || text[0] > '9')
		return -1;
	errno = 0;
	unsigned long long number = strtoull(text, &end, hexadecimal ? 16 : 10);
	*value = (uint32_t)number;
	return errno == 0 && *end == '\0' && number <= max ? 0 : -1;
}

/* Parses a GID: an IPv6 address, or 32 hexadecimal digits without colons. */
static int parse_gid(const char *text, union ibv_gid *gid)
{
	static const union ibv_gid none;
	char colons[40];

	if (strlen(text) == 32 && strspn(text, "0123456789abcdefABCDEF") == 32) {
		snprintf(colons, sizeof colons, "%.4s:%.4s:%.4s:%.4s:%.4s:%.4s:%.4s:%.4s", text, text + 4, text + 8, text + 12,
		         text + 16, text + 20, text + 24, text + 28);
		text = colons;
	}
	return inet_pton(AF_INET6, text, gid->raw) == 1 && memcmp(gid, &none, sizeof none) != 0 ? 0 : -1;
}

/* A datagram is an IPv4 or an IPv6 packet, so our GID must be of the same kind as the server's:
 * IPv4-mapped, link-local or other. */
static int kind(const union ibv_gid *gid)
{
	const struct in6_addr *address = (const void *)gid->raw;

	return IN6_IS_ADDR_V4MAPPED(address) ? 1 : IN6_IS_ADDR_LINKLOCAL(address) ? 2 : 3;
}

/* Opens the first device that has an active port with a RoCE v2 GID of the server's kind. */
static int open_device(const union ibv_gid *server)
{
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	int count = 0, found = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	for (int i = 0; i < count && !found; i++) {
		if (!(c.device = ibv_open_device(list[i])))
			continue;
		if (ibv_query_port(c.device, port_number, &port) != 0 || port.state != IBV_PORT_ACTIVE)
			port.gid_tbl_len = 0;
		for (int index = 0; index < port.gid_tbl_len && !found; index++) {
			found = ibv_query_gid_ex(c.device, port_number, index, &entry, 0) == 0
			        && entry.gid_type == IBV_GID_TYPE_ROCE_V2 && kind(&entry.gid) == kind(server);
			c.gid_index = index;
		}
		if (!found) {
			ibv_close_device(c.device);
			c.device = NULL;
		}
	}
	if (list)  /* NULL if the kernel does not support RDMA */
		ibv_free_device_list(list);
	if (!found)
		fputs(count == 0 ? "[UD Client] no RDMA device (with Verbena: verbena run -- ./ud_client ...)\n"
		                 : "[UD Client] no active port with a RoCE v2 GID of the server's kind\n", stderr);
	return found ? 0 : -1;
}

static int set_up(const struct destination *server)
{
	if (!(c.pd = ibv_alloc_pd(c.device)))
		return fail("ibv_alloc_pd", errno);
	if (!(c.cq = ibv_create_cq(c.device, 1, NULL, NULL, 0)))
		return fail("ibv_create_cq", errno);
	if (!(c.mr = ibv_reg_mr(c.pd, c.message, sizeof c.message, 0)))
		return fail("ibv_reg_mr", errno);
	struct ibv_qp_init_attr init = {.send_cq = c.cq, .recv_cq = c.cq, .qp_type = IBV_QPT_UD,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	if (!(c.qp = ibv_create_qp(c.pd, &init)))
		return fail("ibv_create_qp", errno);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = port_number, .qkey = server->q_key};
	if (check("queue pair to INIT", ibv_modify_qp(c.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY)))
		return -1;
	attr.qp_state = IBV_QPS_RTR;
	if (check("queue pair to RTR", ibv_modify_qp(c.qp, &attr, IBV_QP_STATE)))
		return -1;
	attr.qp_state = IBV_QPS_RTS;
	if (check("queue pair to RTS", ibv_modify_qp(c.qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN)))
		return -1;
	struct ibv_ah_attr route = {.is_global = 1, .port_num = port_number,
		.grh = {.dgid = server->gid, .sgid_index = c.gid_index, .hop_limit = 64}};
	if (!(c.ah = ibv_create_ah(c.pd, &route)))
		return fail("no route to the server's GID (ibv_create_ah)", errno);
	return 0;
}

static int send_message(const struct destination *server)
{
	struct ibv_sge sge = {.addr = (uintptr_t)c.message, .length = strlen(c.message) + 1, .lkey = c.mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {.ah = c.ah, .remote_qpn = server->qpn, .remote_qkey = server->q_key}}, *bad;
	struct ibv_wc wc;
	struct timespec now, start;
	int count;

	if (check("ibv_post_send", ibv_post_send(c.qp, &wr, &bad)))
		return -1;
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		count = ibv_poll_cq(c.cq, 1, &wc);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (count == 0 && now.tv_sec - start.tv_sec <= completion_timeout_s);
	if (count == 1 && wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "[UD Client] not sent: %s\n", count == 1 ? ibv_wc_status_str(wc.status)
	        : count == 0 ? "no completion in time" : "ibv_poll_cq failed");
	return -1;
}

static int tear_down(void)
{
	int error = 0;

	/* The queue pair first: a datagram that has not completed uses the address handle. */
	if (c.qp && check("ibv_destroy_qp", ibv_destroy_qp(c.qp))) error = -1;
	if (c.ah && check("ibv_destroy_ah", ibv_destroy_ah(c.ah))) error = -1;
	if (c.mr && check("ibv_dereg_mr", ibv_dereg_mr(c.mr))) error = -1;
	if (c.cq && check("ibv_destroy_cq", ibv_destroy_cq(c.cq))) error = -1;
	if (c.pd && check("ibv_dealloc_pd", ibv_dealloc_pd(c.pd))) error = -1;
	if (c.device && check("ibv_close_device", ibv_close_device(c.device))) error = -1;
	return error;
}

int main(int argc, char **argv)
{
	struct destination server;
	const char *wrong = argc != 4 ? "three arguments are needed"
	        : parse_gid(argv[1], &server.gid) ? "bad GID (eight groups like fd93:16d3:..., or 32 hexadecimal digits)"
	        : parse_number(argv[2], 0xffffff, &server.qpn) ? "bad QPN (0 to 16777215)"
	        : parse_number(argv[3], 0xffffffff, &server.q_key) ? "bad Q_Key (32 bits, such as 0x11111111)" : NULL;

	if (wrong) {
		fprintf(stderr, "[UD Client] %s\nusage: %s <server_gid> <server_qpn> <qkey>\n", wrong, argv[0]);
		return 2;
	}
	int result = open_device(&server.gid) || set_up(&server);
	if (result == 0 && (result = send_message(&server)) == 0)
		puts("[UD Client] Message sent.");
	return tear_down() || result ? 1 : 0;
}
