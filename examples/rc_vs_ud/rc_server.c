// SPDX-License-Identifier: Apache-2.0
/* A Reliable Connection (RC) server in plain C on librdmacm and libibverbs.
 *
 *   gcc rc_server.c -o rc_server -lrdmacm -libverbs
 *   ./rc_server [port]
 *
 * It listens at an rdma_cm port, serves several clients at a time, prints the messages that they
 * send, and gives each client a buffer of its own for RDMA WRITE and READ. An RC queue pair has
 * exactly one peer, so there is one for each client. The server ends on SIGINT or SIGTERM.
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>

enum { clients_max = 8, receives = 16, message_bytes = 64 };

/* The private data of our accept, big-endian: where the client finds its buffer, and the key. */
struct shared_memory {
	uint32_t address_high, address_low, rkey, bytes;
};

static struct client {
	struct rdma_cm_id *id;  /* NULL: this entry is free */
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct {
		char messages[receives][message_bytes];
		char shared[message_bytes];
	} memory;
} clients[clients_max];

static struct rdma_event_channel *events;
static struct rdma_cm_id *listener;
static unsigned long messages, served;
static volatile sig_atomic_t stopped;

static void stop(int signal_number)
{
	stopped = signal_number;
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "[RC Server] %s: %s\n", what, strerror(error));
	return -1;
}

static int post_receive(struct client *c, uint64_t slot)
{
	struct ibv_sge sge = {.addr = (uintptr_t)c->memory.messages[slot], .length = message_bytes, .lkey = c->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1}, *bad;
	int error = ibv_post_recv(c->id->qp, &wr, &bad);

	return error ? fail("ibv_post_recv", error) : 0;
}

/* Frees in the reverse order of set_up(); also after set_up() has failed halfway. */
static void tear_down(struct client *c)
{
	if (c->id->qp)
		rdma_destroy_qp(c->id);
	if (c->mr && ibv_dereg_mr(c->mr)) fail("ibv_dereg_mr", errno);
	if (c->cq && ibv_destroy_cq(c->cq)) fail("ibv_destroy_cq", errno);
	if (c->channel && ibv_destroy_comp_channel(c->channel)) fail("ibv_destroy_comp_channel", errno);
	if (c->pd && ibv_dealloc_pd(c->pd)) fail("ibv_dealloc_pd", errno);
	if (rdma_destroy_id(c->id)) fail("rdma_destroy_id", errno);
	memset(c, 0, sizeof *c);
}

static int set_up(struct client *c)
{
	struct ibv_context *device = c->id->verbs;

	if (!(c->pd = ibv_alloc_pd(device)))
		return fail("ibv_alloc_pd", errno);
	if (!(c->channel = ibv_create_comp_channel(device)))
		return fail("ibv_create_comp_channel", errno);
	if (!(c->cq = ibv_create_cq(device, receives + 1, NULL, c->channel, 0)))
		return fail("ibv_create_cq", errno);
	c->mr = ibv_reg_mr(c->pd, &c->memory, sizeof c->memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	if (!c->mr)
		return fail("ibv_reg_mr", errno);
	struct ibv_qp_init_attr init = {.send_cq = c->cq, .recv_cq = c->cq, .qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 1, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1}};
	if (rdma_create_qp(c->id, c->pd, &init))
		return fail("rdma_create_qp", errno);
	/* Post receives before the accept: the first message may arrive right behind it. */
	for (int slot = 0; slot < receives; slot++)
		if (post_receive(c, slot))
			return -1;
	int error = ibv_req_notify_cq(c->cq, 0);
	if (error)
		return fail("ibv_req_notify_cq", error);

	uintptr_t address = (uintptr_t)c->memory.shared;
	struct shared_memory shared = {htonl((uint64_t)address >> 32), htonl((uint32_t)address), htonl(c->mr->rkey), htonl(message_bytes)};
	struct rdma_conn_param param = {.private_data = &shared, .private_data_len = sizeof shared,
		.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};
	return rdma_accept(c->id, &param) ? fail("rdma_accept", errno) : 0;
}

static void consume(struct client *c)
{
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc;

	if (ibv_get_cq_event(c->channel, &cq, &context))
		return;
	ibv_ack_cq_events(cq, 1);
	/* Request the next event before the queue is emptied, so that no completion is missed. */
	ibv_req_notify_cq(cq, 0);
	while (ibv_poll_cq(cq, 1, &wc) > 0) {
		if (wc.status != IBV_WC_SUCCESS)  /* the connection is ending, and flushes its receives */
			continue;
		const char *text = c->memory.messages[wc.wr_id];
		printf("[RC Server] Received %u bytes: ", wc.byte_len);
		for (unsigned i = 0; i < wc.byte_len && text[i] != '\0'; i++)
			putchar(text[i] >= ' ' && text[i] <= '~' ? text[i] : '.');
		putchar('\n');
		messages++;
		post_receive(c, wc.wr_id);
	}
}

static struct client *find(const struct rdma_cm_id *id)
{
	for (int i = 0; i < clients_max; i++)
		if (clients[i].id == id)
			return &clients[i];
	return NULL;
}

static int handle_event(void)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(events, &event))
		return fail("rdma_get_cm_event", errno);
	enum rdma_cm_event_type type = event->event;
	struct rdma_cm_id *id = event->id;  /* for a request: the id of the new connection */
	rdma_ack_cm_event(event);           /* frees the event */

	struct client *c = find(type == RDMA_CM_EVENT_CONNECT_REQUEST ? NULL : id);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
		if (!c) {  /* no free entry */
			rdma_reject(id, NULL, 0);
			rdma_destroy_id(id);
			return 0;
		}
		c->id = id;
		if (set_up(c)) {
			rdma_reject(id, NULL, 0);
			tear_down(c);
		}
	} else if (type == RDMA_CM_EVENT_ESTABLISHED) {
		puts("[RC Server] A client has connected.");
		served++;
	} else if (c && type != RDMA_CM_EVENT_TIMEWAIT_EXIT) {  /* disconnected, or never established */
		rdma_disconnect(id);
		tear_down(c);
		puts("[RC Server] A client has left.");
	}
	return 0;
}

static int serve(void)
{
	while (!stopped) {
		struct pollfd readable[1 + clients_max] = {{.fd = events->fd, .events = POLLIN}};
		for (int i = 0; i < clients_max; i++)
			readable[1 + i] = (struct pollfd){.fd = clients[i].id ? clients[i].channel->fd : -1, .events = POLLIN};
		/* The timeout bounds the wait if a signal arrives just before poll(). */
		if (poll(readable, 1 + clients_max, 200) <= 0)
			continue;
		/* Messages first: a client may have sent them and then disconnected. */
		for (int i = 0; i < clients_max; i++)
			if (readable[1 + i].revents)
				consume(&clients[i]);
		if (readable[0].revents && handle_event())
			return -1;
	}
	return 0;
}

static int listen_at(int port)
{
	/* The address :: accepts IPv4 as well. */
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (!(events = rdma_create_event_channel()))
		return fail("no RDMA device (with Verbena: verbena run -- ./rc_server): rdma_create_event_channel", errno);
	if (rdma_create_id(events, &listener, NULL, RDMA_PS_TCP))
		return fail("rdma_create_id", errno);
	if (rdma_bind_addr(listener, (struct sockaddr *)&any))
		return fail("is the port in use? rdma_bind_addr", errno);
	return rdma_listen(listener, clients_max) ? fail("rdma_listen", errno) : 0;
}

int main(int argc, char **argv)
{
	char *end = "";
	long port = argc > 1 ? strtol(argv[1], &end, 10) : 18515;

	if (argc > 2 || *end != '\0' || port < 1 || port > 65535)
		return fprintf(stderr, "usage: %s [port]\n", argv[0]), 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	signal(SIGINT, stop);
	signal(SIGTERM, stop);
	printf("Starting RDMA Server on port %ld (Type: RC)...\n", port);
	int result = listen_at(port);
	if (result == 0) {
		puts("RDMA Server listening...");
		result = serve();
		printf("[RC Server] Received %lu messages of %lu clients.\n", messages, served);
	}
	for (int i = 0; i < clients_max; i++)
		if (clients[i].id)
			tear_down(&clients[i]);
	if (listener)
		rdma_destroy_id(listener);
	if (events)
		rdma_destroy_event_channel(events);
	return result ? 1 : 0;
}
