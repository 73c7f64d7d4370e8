// SPDX-License-Identifier: Apache-2.0
// Arguments that rdma_cm refuses, and those at the limit that it accepts. Prints a line for the
// first step that goes wrong, and at last "done".
//
//     arguments ADDRESS, an IPv4 address of this host
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../must.h"

enum { PATIENCE_MS = 20000 };

#define MUST_BE_REFUSED(call) MUST((errno = 0, (call) == -1) && errno == EINVAL)

static struct rdma_event_channel* channel;
static const char* own_address;
static char text[256];

static struct sockaddr* ipv4(int port) {
	static struct sockaddr_in made;
	made = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	MUST(inet_pton(AF_INET, own_address, &made.sin_addr) == 1);
	return (struct sockaddr*)&made;
}

static struct rdma_cm_id* new_id(enum rdma_port_space space) {
	struct rdma_cm_id* id;
	MUST(rdma_create_id(channel, &id, NULL, space) == 0);
	return id;
}

// The id of the next event, which is of this type and has `bytes` bytes of `text`.
static struct rdma_cm_id* next(enum rdma_cm_event_type type, int bytes) {
	struct pollfd readable = {channel->fd, POLLIN, 0};
	struct rdma_cm_event* event;
	MUST(poll(&readable, 1, PATIENCE_MS) == 1 && rdma_get_cm_event(channel, &event) == 0);
	MUST(event->event == type);
	struct rdma_cm_id* id = event->id;
	const int datagram = id->ps == RDMA_PS_UDP;
	const void* data = datagram ? event->param.ud.private_data : event->param.conn.private_data;
	const int length = datagram ? event->param.ud.private_data_len : event->param.conn.private_data_len;
	MUST(bytes == 0 || (length >= bytes && memcmp(data, text, (size_t)bytes) == 0));
	MUST(rdma_ack_cm_event(event) == 0);
	return id;
}

static void add_qp(struct rdma_cm_id* id) {
	struct ibv_qp_init_attr wanted = {
		.cap = {2, 2, 1, 1, 0}, .qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC};
	MUST(rdma_create_qp(id, NULL, &wanted) == 0);
}

static void end(struct rdma_cm_id* id) {
	if (id->qp) rdma_destroy_qp(id);
	MUST(rdma_destroy_id(id) == 0);
}

static struct rdma_conn_param with_text(int bytes) {
	return (struct rdma_conn_param){
		.private_data = text, .private_data_len = (uint8_t)bytes, .responder_resources = 1, .initiator_depth = 1};
}

// An id whose connect was refused with `room` + 1 bytes, and accepted with `room`.
static struct rdma_cm_id* connecting(enum rdma_port_space space, int port, int room) {
	struct rdma_cm_id* id = new_id(space);
	struct rdma_conn_param too_long = with_text(room + 1), longest = with_text(room);
	MUST(rdma_resolve_addr(id, NULL, ipv4(port), PATIENCE_MS) == 0);
	next(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(rdma_resolve_route(id, PATIENCE_MS) == 0);
	next(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	add_qp(id);
	MUST_BE_REFUSED(rdma_connect(id, &too_long));
	MUST(rdma_connect(id, &longest) == 0);
	return id;
}

// The bytes of private data that a connect, an accept and a reject have room for.
static void private_data_that_is_too_long(enum rdma_port_space space, int of_connect, int of_accept, int of_reject) {
	struct rdma_cm_id* listener = new_id(space);
	struct rdma_conn_param too_long = with_text(of_accept + 1), longest = with_text(of_accept);
	MUST(rdma_bind_addr(listener, ipv4(0)) == 0 && rdma_listen(listener, 8) == 0);
	const int port = ntohs(rdma_get_src_port(listener));

	struct rdma_cm_id* client = connecting(space, port, of_connect);
	struct rdma_cm_id* server = next(RDMA_CM_EVENT_CONNECT_REQUEST, of_connect);
	add_qp(server);
	too_long.qp_num = server->qp->qp_num;
	MUST_BE_REFUSED(rdma_accept(server, &too_long));  // librdmacm moves the queue pair to ERR
	MUST_BE_REFUSED(rdma_reject(server, text, (uint8_t)(of_reject + 1)));
	MUST(rdma_reject(server, text, (uint8_t)of_reject) == 0);
	next(space == RDMA_PS_UDP ? RDMA_CM_EVENT_UNREACHABLE : RDMA_CM_EVENT_REJECTED, of_reject);
	end(client), end(server);

	client = connecting(space, port, of_connect);
	server = next(RDMA_CM_EVENT_CONNECT_REQUEST, of_connect);
	add_qp(server);
	longest.qp_num = server->qp->qp_num;
	MUST(rdma_accept(server, &longest) == 0);
	MUST(next(RDMA_CM_EVENT_ESTABLISHED, space == RDMA_PS_UDP ? of_accept : 0));
	end(client), end(server), end(listener);
}

// Without a scope id, a link-local address names no interface. The id stays idle.
static void link_local_address_without_a_scope(void) {
	struct sockaddr_in6 link_local = {.sin6_family = AF_INET6};
	struct sockaddr* source = (struct sockaddr*)&link_local;
	struct rdma_cm_id* id = new_id(RDMA_PS_TCP);
	MUST(inet_pton(AF_INET6, "fe80::1", &link_local.sin6_addr) == 1);
	MUST_BE_REFUSED(rdma_bind_addr(id, source));
	MUST_BE_REFUSED(rdma_resolve_addr(id, source, source, PATIENCE_MS));
	link_local.sin6_scope_id = 1;  // the loopback, which does not have the address
	MUST(rdma_bind_addr(id, source) == -1 && errno == EADDRNOTAVAIL);
	MUST(rdma_bind_addr(id, ipv4(0)) == 0);
	end(id);
}

int main(int argc, char** argv) {
	if (argc != 2) return fprintf(stderr, "usage: %s ADDRESS\n", argv[0]), 2;
	own_address = argv[1];
	for (size_t i = 0; i < sizeof text; ++i) text[i] = (char)(i + 1);
	MUST(channel = rdma_create_event_channel());
	private_data_that_is_too_long(RDMA_PS_TCP, 56, 196, 148);
	private_data_that_is_too_long(RDMA_PS_UDP, 180, 136, 136);
	link_local_address_without_a_scope();
	fprintf(stderr, "done\n");
	return 0;
}
