// SPDX-License-Identifier: Apache-2.0
// The steps of which a side of a scenario is made. A side prints each event and each result that
// the scenario is about, one on a line, and synchronises with the other side over a pipe. Every
// wait has a deadline; a step that must not fail ends the process.
#pragma once

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_MS 40000

// From the command line.
extern const char *server_address, *client_address, *absent_address, *unrouted_address;
extern int port;
// Descriptors: this side's output, and its ends of the two pipes to the other side.
extern int lines, to_other, from_other;

__attribute__((format(printf, 1, 2))) static inline void say(const char* format, ...) {
	va_list arguments;
	va_start(arguments, format);
	vdprintf(lines, format, arguments);
	va_end(arguments);
}

// Makes a call that returns 0, or -1 and errno, and prints its name and result.
#define CALL(call)                                                                                   \
	({                                                                                               \
		const int result_ = (call);                                                                  \
		const int errno_ = errno;                                                                    \
		const char* text_ = #call;                                                                   \
		say("%.*s %s\n", (int)strcspn(text_, "("), text_, result_ ? strerrorname_np(errno_) : "ok"); \
		result_;                                                                                     \
	})

// A step that the scenario is not about: it must succeed, and prints nothing.
#define MUST(condition)                                           \
	do                                                            \
		if (!(condition)) {                                       \
			say("failed: %s: %s\n", #condition, strerror(errno)); \
			exit(1);                                              \
		}                                                         \
	while (0)

// Lets the other side's wait_for_other() return.
static inline void signal_other(void) { MUST(write(to_other, "!", 1) == 1); }

// Waits for the other side's `signal_other()`.
static inline void wait_for_other(void) {
	struct pollfd readable = {from_other, POLLIN, 0};
	char byte;
	MUST(poll(&readable, 1, LIMIT_MS) == 1 && read(from_other, &byte, 1) == 1);
}

static inline struct sockaddr* address(const char* text, int at_port) {
	static struct sockaddr_in made[4];
	static int next;
	struct sockaddr_in* one = &made[next++ % 4];
	*one = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)at_port)};
	MUST(inet_pton(AF_INET, text, &one->sin_addr) == 1);
	return (struct sockaddr*)one;
}

static inline struct rdma_event_channel* new_channel(void) {
	struct rdma_event_channel* channel = rdma_create_event_channel();
	MUST(channel);
	return channel;
}

static inline struct rdma_cm_id* new_id(struct rdma_event_channel* channel, enum rdma_port_space space) {
	struct rdma_cm_id* id;
	MUST(rdma_create_id(channel, &id, NULL, space) == 0);
	return id;
}

// Whether an event is ready within this time.
static inline bool waits(struct rdma_event_channel* channel, int timeout_ms) {
	struct pollfd readable = {channel->fd, POLLIN, 0};
	return poll(&readable, 1, timeout_ms) == 1;
}

// Prints and acknowledges the next event, with its status and private data. Returns its id, or NULL
// if none came in time.
static inline struct rdma_cm_id* next_within(struct rdma_event_channel* channel, int timeout_ms) {
	struct rdma_cm_event* event;
	if (!waits(channel, timeout_ms)) {
		say("no event\n");
		return NULL;
	}
	MUST(rdma_get_cm_event(channel, &event) == 0);
	struct rdma_cm_id* id = event->id;
	const bool datagram = event->id->ps == RDMA_PS_UDP;
	const char* data = datagram ? event->param.ud.private_data : event->param.conn.private_data;
	const int bytes = datagram ? event->param.ud.private_data_len : event->param.conn.private_data_len;
	const bool has_text = data && bytes && *data;
	say("%s %d%s%.*s\n", rdma_event_str(event->event) + strlen("RDMA_CM_EVENT_"), event->status, has_text ? " " : "",
		has_text ? bytes : 0, data);
	MUST(rdma_ack_cm_event(event) == 0);
	return id;
}

static inline struct rdma_cm_id* next(struct rdma_event_channel* channel) { return next_within(channel, LIMIT_MS); }

// Reads an event without waiting, and prints the result: EAGAIN if there is none.
static inline void next_now(struct rdma_event_channel* channel) {
	struct rdma_cm_event* event;
	MUST(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) == 0);
	CALL(rdma_get_cm_event(channel, &event));
}

static inline int create_qp(struct rdma_cm_id* id) {
	static struct ibv_cq* cq;
	if (!cq) cq = ibv_create_cq(id->verbs, 16, NULL, NULL, 0);
	MUST(cq);
	struct ibv_qp_init_attr wanted = {.send_cq = cq,
		.recv_cq = cq,
		.cap = {2, 2, 1, 1, 0},
		.qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC};
	return rdma_create_qp(id, NULL, &wanted);
}

static inline void add_qp(struct rdma_cm_id* id) { MUST(create_qp(id) == 0); }

static inline struct rdma_conn_param conn_param_with_text(const char* text) {
	return (struct rdma_conn_param){.private_data = text,
		.private_data_len = (uint8_t)strlen(text),
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 7,
		.rnr_retry_count = 7};
}

static inline struct rdma_cm_id* listener_on(struct rdma_event_channel* channel, enum rdma_port_space space) {
	struct rdma_cm_id* id = new_id(channel, space);
	MUST(rdma_bind_addr(id, address(server_address, port)) == 0);
	MUST(rdma_listen(id, 1024) == 0);
	return id;
}

// Takes an event that the scenario is not about; it must have this type and is not printed.
static inline void skip(struct rdma_event_channel* channel, enum rdma_cm_event_type type) {
	struct rdma_cm_event* event;
	MUST(waits(channel, LIMIT_MS) && rdma_get_cm_event(channel, &event) == 0 && event->event == type &&
		rdma_ack_cm_event(event) == 0);
}

// Returns a client's id with address, route and QP, ready to connect.
static inline struct rdma_cm_id* routed(struct rdma_event_channel* channel, enum rdma_port_space space) {
	struct rdma_cm_id* id = new_id(channel, space);
	MUST(rdma_resolve_addr(id, address(client_address, 0), address(server_address, port), 2000) == 0);
	skip(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_resolve_route(id, 2000) == 0);
	skip(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	add_qp(id);
	return id;
}
