// SPDX-License-Identifier: Apache-2.0
/* A Reliable Connection (RC) client in plain C on librdmacm and libibverbs: it sends a message to
 * an rc_server, and then does an RDMA WRITE and an RDMA READ.
 *
 *   gcc rc_client.c -o rc_client -lrdmacm -libverbs
 *   ./rc_client <server_ip> [port]       for example  ./rc_client 10.0.0.1
 *
 * With rdma_cm an IP address and a port are enough; no program exchanges QPN, GID and PSN itself.
 * An RC completion means that the server's NIC has acknowledged. The WRITE goes into the server's
 * memory without any action of the server's program, and the READ brings it back to be compared.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rdma/rdma_cma.h>

enum { message_bytes = 64, timeout_ms = 5000 };

/* The private data of the server's accept, big-endian: where its memory is, and the key to it. */
struct shared_memory {
	uint32_t address_high, address_low, rkey, bytes;
};

static struct client {
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint64_t remote_address;
	uint32_t rkey;
	struct {
		char message[message_bytes], read_back[message_bytes];
	} memory;
} c = {.memory = {.message = "Hello from rc_client"}};

static int fail(const char *what, int error)
{
	fprintf(stderr, "[RC Client] %s: %s\n", what, strerror(error));
	return -1;
}

/* Explains an event that was not the wanted one. A negative status is an errno; the status of a
 * rejection is its reason. */
static int fail_event(enum rdma_cm_event_type type, int status)
{
	if (type == RDMA_CM_EVENT_REJECTED)
		fprintf(stderr, "[RC Client] rejected (%s, reason %d)\n", status == 8 || status == -ECONNREFUSED
		        ? "no server listens at that port" : "the server is full, or it is another program", status);
	else if (status == -ENODEV)
		fputs("[RC Client] no RDMA device leads to the server (with Verbena: verbena run -- ./rc_client ...)\n", stderr);
	else
		fprintf(stderr, "[RC Client] %s: %s\n", rdma_event_str(type), status < 0 ? strerror(-status) : "the server does not answer");
	return -1;
}

/* Waits for the next event, which must be the wanted one. Its private data is copied into *shared,
 * if that is not NULL, before rdma_ack_cm_event() frees the event. */
static int await(enum rdma_cm_event_type wanted, struct shared_memory *shared)
{
	struct pollfd readable = {.fd = c.events->fd, .events = POLLIN};
	struct rdma_cm_event *event;

	/* The server may have died. rdma_cm retries for a while, so wait longer than one timeout. */
	if (poll(&readable, 1, 6 * timeout_ms) != 1)
		return fail("waiting for rdma_cm", ETIMEDOUT);
	if (rdma_get_cm_event(c.events, &event))
		return fail("rdma_get_cm_event", errno);
	enum rdma_cm_event_type type = event->event;
	int status = event->status;
	int complete = !shared || event->param.conn.private_data_len >= sizeof *shared;
	if (type == wanted && shared && complete)
		memcpy(shared, event->param.conn.private_data, sizeof *shared);
	rdma_ack_cm_event(event);
	if (type != wanted)
		return fail_event(type, status);
	return complete ? 0 : fail("the server's private data has no memory address", EPROTO);
}

/* Resolves the address and the route: rdma_cm chooses the device that leads to the server. */
static int find_way(struct sockaddr *server)
{
	if (!(c.events = rdma_create_event_channel()))
		return fail("no RDMA device (with Verbena: verbena run -- ./rc_client ...): rdma_create_event_channel", errno);
	if (rdma_create_id(c.events, &c.id, NULL, RDMA_PS_TCP))
		return fail("rdma_create_id", errno);
	if (rdma_resolve_addr(c.id, NULL, server, timeout_ms))
		return fail("rdma_resolve_addr", errno);
	if (await(RDMA_CM_EVENT_ADDR_RESOLVED, NULL))
		return -1;
	if (rdma_resolve_route(c.id, timeout_ms))
		return fail("rdma_resolve_route", errno);
	return await(RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
}

static int set_up(void)
{
	if (!(c.pd = ibv_alloc_pd(c.id->verbs)))
		return fail("ibv_alloc_pd", errno);
	if (!(c.cq = ibv_create_cq(c.id->verbs, 1, NULL, NULL, 0)))
		return fail("ibv_create_cq", errno);
	if (!(c.mr = ibv_reg_mr(c.pd, &c.memory, sizeof c.memory, IBV_ACCESS_LOCAL_WRITE)))
		return fail("ibv_reg_mr", errno);
	struct ibv_qp_init_attr init = {.send_cq = c.cq, .recv_cq = c.cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
	return rdma_create_qp(c.id, c.pd, &init) ? fail("rdma_create_qp", errno) : 0;
}

static int connect_to_server(void)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct shared_memory shared;

	if (rdma_connect(c.id, &param))
		return fail("rdma_connect", errno);
	if (await(RDMA_CM_EVENT_ESTABLISHED, &shared))
		return -1;
	if (ntohl(shared.bytes) < message_bytes)
		return fail("the server's memory is too small", EPROTO);
	c.remote_address = (uint64_t)ntohl(shared.address_high) << 32 | ntohl(shared.address_low);
	c.rkey = ntohl(shared.rkey);
	return 0;
}

/* Posts one work request, and polls until it has completed. */
static int transfer(enum ibv_wr_opcode opcode, char *buffer, const char *what)
{
	struct ibv_sge sge = {.addr = (uintptr_t)buffer, .length = message_bytes, .lkey = c.mr->lkey};
	/* A SEND ignores the remote address and the key. */
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = c.remote_address, .rkey = c.rkey}}, *bad;
	struct ibv_wc wc;
	struct timespec now, start;
	int count, error = ibv_post_send(c.id->qp, &wr, &bad);

	if (error)
		return fail("ibv_post_send", error);
	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		count = ibv_poll_cq(c.cq, 1, &wc);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (count == 0 && now.tv_sec - start.tv_sec <= 6 * timeout_ms / 1000);
	if (count == 1 && wc.status == IBV_WC_SUCCESS)
		return 0;
	fprintf(stderr, "[RC Client] %s failed: %s\n", what, count == 1 ? ibv_wc_status_str(wc.status)
	        : count == 0 ? "no completion in time" : "ibv_poll_cq failed");
	return -1;
}

static int talk(void)
{
	if (transfer(IBV_WR_SEND, c.memory.message, "SEND"))
		return -1;
	puts("[RC Client] Message sent and acknowledged.");
	if (transfer(IBV_WR_RDMA_WRITE, c.memory.message, "RDMA WRITE") || transfer(IBV_WR_RDMA_READ, c.memory.read_back, "RDMA READ"))
		return -1;
	if (memcmp(c.memory.message, c.memory.read_back, message_bytes) != 0)
		return fail("the bytes that were read back differ", EIO);
	printf("[RC Client] %d bytes written, read back and compared: equal.\n", message_bytes);
	return 0;
}

static void tear_down(void)
{
	if (c.id && c.id->qp)
		rdma_destroy_qp(c.id);
	if (c.mr && ibv_dereg_mr(c.mr)) fail("ibv_dereg_mr", errno);
	if (c.cq && ibv_destroy_cq(c.cq)) fail("ibv_destroy_cq", errno);
	if (c.pd && ibv_dealloc_pd(c.pd)) fail("ibv_dealloc_pd", errno);
	if (c.id && rdma_destroy_id(c.id)) fail("rdma_destroy_id", errno);
	if (c.events)
		rdma_destroy_event_channel(c.events);
}

int main(int argc, char **argv)
{
	struct addrinfo *server = NULL, hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};

	if (argc < 2 || argc > 3 || getaddrinfo(argv[1], argc == 3 ? argv[2] : "18515", &hints, &server)) {
		fprintf(stderr, "usage: %s <server_ip> [port]\n", argv[0]);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("Attempting to connect...");
	int result = find_way(server->ai_addr) || set_up() || connect_to_server();
	if (result == 0) {
		puts("RDMA_CM_EVENT_ESTABLISHED! Connection successful.");
		result = talk();
		rdma_disconnect(c.id);
	}
	tear_down();
	freeaddrinfo(server);
	return result ? 1 : 0;
}
