// SPDX-License-Identifier: Apache-2.0
// A pair by rdma_cm: address and route resolution, connecting, messages, disconnecting. Every event
// is waited for in rdma_get_cm_event(), except for the time limit.
#include "side.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>

enum { TIMEOUT_MS = 2000 };

static struct rdma_event_channel* events;
static struct rdma_cm_id* id;  // the connection

// Waits for an event of this type. Another one is a clean error if it reports a failure.
static struct rdma_cm_id* expect(enum rdma_cm_event_type type) {
	struct rdma_cm_event* event;
	await(events->fd, rdma_event_str(type));
	while (rdma_get_cm_event(events, &event) != 0) {
		TRY(errno == EINTR || errno == EAGAIN);
		await(events->fd, rdma_event_str(type));
	}
	struct rdma_cm_id* const about = event->id;
	const enum rdma_cm_event_type got = event->event;
	const int status = event->status;
	TRY(rdma_ack_cm_event(event) == 0);
	if (got == type) return about;
	fprintf(stderr, "%s: %s %d instead of %s\n", side_name, rdma_event_str(got), status, rdma_event_str(type));
	exit(CLEAN_ERROR);
}

static void wait_for(int count) {
	while (count > 0) {
		struct ibv_wc wc;
		TRY((errno = ibv_req_notify_cq(id->recv_cq, 0)) == 0);
		const int got = ibv_poll_cq(id->recv_cq, 1, &wc);
		TRY(got >= 0);
		if (got == 1) {
			if (wc.status != IBV_WC_SUCCESS) {
				fprintf(stderr, "%s: completion: %s\n", side_name, ibv_wc_status_str(wc.status));
				exit(CLEAN_ERROR);
			}
			--count;
			continue;
		}
		struct ibv_cq* which;
		void* unused;
		await(id->recv_cq_channel->fd, "completion event");
		if (ibv_get_cq_event(id->recv_cq_channel, &which, &unused) == 0) ibv_ack_cq_events(which, 1);
		else TRY(errno == EINTR);
	}
}

static void make_qp(void) {
	struct ibv_comp_channel* const channel = ibv_create_comp_channel(id->verbs);
	TRY(channel);
	struct ibv_cq* const cq = ibv_create_cq(id->verbs, 4 * MESSAGES, NULL, channel, 0);
	TRY(cq);
	struct ibv_qp_init_attr init = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {MESSAGES, MESSAGES, 1, 1, 0}};
	TRY(rdma_create_qp(id, NULL, &init) == 0);
	id->recv_cq = cq;
	id->recv_cq_channel = channel;
}

void play_rdma_cm(bool server) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_id* listener = NULL;
	TRY(events = rdma_create_event_channel());
	if (server) {
		// librdmacm refuses a request whose device it cannot open, and waits for the next event, so
		// a server that polls must not block there.
		TRY(fcntl(events->fd, F_SETFL, O_NONBLOCK) == 0);
		TRY(rdma_create_id(events, &listener, NULL, RDMA_PS_TCP) == 0);
		TRY(rdma_bind_addr(listener, (struct sockaddr*)&address) == 0);
		TRY(rdma_listen(listener, 1) == 0);
		address.sin_port = rdma_get_src_port(listener);
	}
	struct sockaddr_in theirs;
	exchange(&address, &theirs, sizeof address);
	if (server) {
		id = expect(RDMA_CM_EVENT_CONNECT_REQUEST);
	} else {
		TRY(rdma_create_id(events, &id, NULL, RDMA_PS_TCP) == 0);
		TRY(rdma_resolve_addr(id, NULL, (struct sockaddr*)&theirs, TIMEOUT_MS) == 0);
		expect(RDMA_CM_EVENT_ADDR_RESOLVED);
		TRY(rdma_resolve_route(id, TIMEOUT_MS) == 0);
		expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
	}
	make_qp();
	unsigned char* const memory = calloc(2 * MESSAGES, MESSAGE_BYTES);
	TRY(memory);
	struct ibv_mr* const mr = ibv_reg_mr(id->pd, memory, (size_t)2 * MESSAGES * MESSAGE_BYTES, IBV_ACCESS_LOCAL_WRITE);
	TRY(mr);
	for (unsigned i = 0; i < MESSAGES; ++i) {
		struct ibv_sge sge = {(uintptr_t)(memory + i * MESSAGE_BYTES), MESSAGE_BYTES, mr->lkey};
		struct ibv_recv_wr wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1}, *bad;
		TRY((errno = ibv_post_recv(id->qp, &wr, &bad)) == 0);
	}
	struct rdma_conn_param param = {
		.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	TRY((server ? rdma_accept(id, &param) : rdma_connect(id, &param)) == 0);
	expect(RDMA_CM_EVENT_ESTABLISHED);
	for (unsigned i = 0; i < MESSAGES; ++i) {
		unsigned char* const at = memory + (MESSAGES + i) * MESSAGE_BYTES;
		fill(at, MESSAGE_BYTES, i);
		struct ibv_sge sge = {(uintptr_t)at, MESSAGE_BYTES, mr->lkey};
		struct ibv_send_wr wr = {
			.wr_id = i, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
		struct ibv_send_wr* bad;
		TRY((errno = ibv_post_send(id->qp, &wr, &bad)) == 0);
	}
	wait_for(2 * MESSAGES);
	for (unsigned i = 0; i < MESSAGES; ++i) check_filled(memory + i * MESSAGE_BYTES, MESSAGE_BYTES, i);
	meet();
	if (!server) TRY(rdma_disconnect(id) == 0);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	struct ibv_cq* const cq = id->recv_cq;
	struct ibv_comp_channel* const channel = id->recv_cq_channel;
	rdma_destroy_qp(id);
	TRY((errno = ibv_dereg_mr(mr)) == 0);
	(void)cq, (void)channel;
	TRY(rdma_destroy_id(id) == 0);
	if (listener) TRY(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(events);
}
