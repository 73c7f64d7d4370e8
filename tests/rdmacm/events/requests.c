// SPDX-License-Identifier: Apache-2.0
// Connection requests: without a listener, early, rejected, withdrawn, and many.
#include "stage.h"

// No listener: with a process on the server's side that uses rdma_cm and does not listen, or
// without one.
static void does_not_listen_server(void) {
	signal_other();
	wait_for_other();
}
static void connect_without_listener(enum rdma_port_space space) {
	struct rdma_conn_param please = conn_param_with_text("please");
	CALL(rdma_connect(routed(channel, space), &please));
	next(channel);
}
static void no_process_client(void) { connect_without_listener(RDMA_PS_TCP); }
static void no_process_datagram_client(void) { connect_without_listener(RDMA_PS_UDP); }
static void no_listener_client(void) {
	wait_for_other();
	connect_without_listener(RDMA_PS_TCP);
	connect_without_listener(RDMA_PS_UDP);
	signal_other();
}

// A client that is earlier than the listener; perftest -R connects like this.
static void listens_late_client(void) {
	struct rdma_conn_param please = conn_param_with_text("please");
	wait_for_other();
	struct rdma_cm_id* id = routed(channel, RDMA_PS_TCP);
	CALL(rdma_connect(id, &please));
	signal_other();
	next(channel);
}
static void listens_late_server(void) {
	struct rdma_conn_param hello = conn_param_with_text("hello");
	signal_other();
	wait_for_other();
	listener_on(channel, RDMA_PS_TCP);
	struct rdma_cm_id* id = next(channel);
	add_qp(id);
	CALL(rdma_accept(id, &hello));
	next(channel);
}
static void leaves_without_listener_client(void) {
	struct rdma_conn_param please = conn_param_with_text("please");
	wait_for_other();
	struct rdma_cm_id* id = routed(channel, RDMA_PS_TCP);
	CALL(rdma_connect(id, &please));
	CALL(rdma_disconnect(id));
	next(channel);
	id = routed(channel, RDMA_PS_TCP);
	CALL(rdma_connect(id, &please));
	rdma_destroy_qp(id);
	CALL(rdma_destroy_id(id));
	next_now(channel);
	signal_other();
}

static void reject_server(void) {
	struct rdma_cm_id *listener, *id = asked(&listener);
	CALL(rdma_reject(id, "no thanks", 9));
	CALL(rdma_destroy_id(id));
}

// A port is given up by one process and later taken by another, while the first process lives on.
enum { MEETINGS = 3 };  // connects before that, after which a client may remember the port's owner
static void port_moves_server(void) {
	struct rdma_cm_id* listener = listener_on(channel, RDMA_PS_TCP);
	signal_other();
	for (int i = 0; i < MEETINGS; ++i) {
		struct rdma_cm_id* id = next(channel);
		CALL(rdma_reject(id, "no", 2));
		MUST(rdma_destroy_id(id) == 0);
	}
	wait_for_other();
	CALL(rdma_destroy_id(listener));
	signal_other();
	wait_for_other();
}
static void port_moves_client(void) {
	struct rdma_conn_param please = conn_param_with_text("please");
	wait_for_other();
	for (int i = 0; i < MEETINGS; ++i) connect_without_listener(RDMA_PS_TCP);
	signal_other();
	wait_for_other();
	connect_without_listener(RDMA_PS_TCP);
	listener_on(channel, RDMA_PS_TCP);
	CALL(rdma_connect(routed(channel, RDMA_PS_TCP), &please));
	CALL(rdma_reject(next(channel), "mine", 4));
	next(channel);
	signal_other();
}

static void listener_gone_server(void) {
	struct rdma_cm_id* listener = listener_on(channel, RDMA_PS_TCP);
	signal_other();
	MUST(waits(channel, LIMIT_MS));
	CALL(rdma_destroy_id(listener));
	next_now(channel);
}

static void listener_gone_after_reading_server(void) {
	struct rdma_cm_id *listener, *id = asked(&listener);
	struct rdma_conn_param hello = conn_param_with_text("hello");
	CALL(rdma_destroy_id(listener));
	add_qp(id);
	CALL(rdma_accept(id, &hello));
	next(channel);
	signal_other();
	wait_for_other();
}
static void listener_gone_after_reading_client(void) {
	connected();
	wait_for_other();
	signal_other();
}

static void client_gives_up_server(void) {
	struct rdma_conn_param hello = conn_param_with_text("hello");
	struct rdma_cm_id* listener = listener_on(channel, RDMA_PS_TCP);
	signal_other();
	MUST(waits(channel, LIMIT_MS));
	signal_other();
	wait_for_other();
	struct rdma_cm_id* id = next(channel);
	next_within(channel, 1000);
	if (CALL(create_qp(id)) == 0) CALL(rdma_accept(id, &hello));
	CALL(rdma_destroy_id(id));
	CALL(rdma_destroy_id(listener));
}
static void client_gives_up_client(void) {
	struct rdma_cm_id* id = connecting();
	wait_for_other();
	rdma_destroy_qp(id);
	CALL(rdma_destroy_id(id));
	signal_other();
}

enum { MANY = 1000 };

static void say_counts(const int* counts) {
	for (int type = 0; type < 16; ++type)
		if (counts[type]) say("%d times %s\n", counts[type], rdma_event_str(type) + strlen("RDMA_CM_EVENT_"));
}
// Handles events, each with its next step, until `wanted` have been of type `last` or refusals.
static void handle_events_until(enum rdma_cm_event_type last, int wanted) {
	struct rdma_cm_event* event;
	int counts[16] = {0};
	while (counts[last] + counts[RDMA_CM_EVENT_REJECTED] + counts[RDMA_CM_EVENT_UNREACHABLE] < wanted &&
		waits(channel, LIMIT_MS)) {
		MUST(rdma_get_cm_event(channel, &event) == 0);
		struct rdma_cm_id* id = event->id;
		const enum rdma_cm_event_type type = event->event;
		++counts[type];
		MUST(rdma_ack_cm_event(event) == 0);
		struct rdma_conn_param hello = conn_param_with_text("hello");
		if (type == RDMA_CM_EVENT_ADDR_RESOLVED) MUST(rdma_resolve_route(id, 2000) == 0);
		if (type == RDMA_CM_EVENT_ROUTE_RESOLVED || type == RDMA_CM_EVENT_CONNECT_REQUEST) add_qp(id);
		if (type == RDMA_CM_EVENT_CONNECT_REQUEST) MUST(rdma_accept(id, &hello) == 0);
	}
	say_counts(counts);
}
static void a_thousand_server(void) {
	listener_on(channel, RDMA_PS_TCP);
	signal_other();
	handle_events_until(RDMA_CM_EVENT_ESTABLISHED, MANY);
	signal_other();
	wait_for_other();
}
static void a_thousand_client(void) {
	static struct rdma_cm_id* ids[MANY];
	struct rdma_conn_param please = conn_param_with_text("please");
	wait_for_other();
	for (int i = 0; i < MANY; ++i) {
		ids[i] = new_id(channel, RDMA_PS_TCP);
		MUST(rdma_resolve_addr(ids[i], address(client_address, 0), address(server_address, port), 20000) == 0);
	}
	handle_events_until(RDMA_CM_EVENT_ROUTE_RESOLVED, MANY);
	for (int i = 0; i < MANY; ++i) MUST(rdma_connect(ids[i], &please) == 0);
	handle_events_until(RDMA_CM_EVENT_ESTABLISHED, MANY);
	wait_for_other();
	signal_other();
}

const struct scenario requests[] = {
	{"no_process", no_process_client, NULL},
	{"no_process_datagram", no_process_datagram_client, NULL},
	{"no_listener", no_listener_client, does_not_listen_server},
	{"listens_late", listens_late_client, listens_late_server},
	{"leaves_without_listener", leaves_without_listener_client, does_not_listen_server},
	{"reject", refused_client, reject_server},
	{"port_moves", port_moves_client, port_moves_server},
	{"listener_gone", refused_client, listener_gone_server},
	{"listener_gone_after_reading", listener_gone_after_reading_client, listener_gone_after_reading_server},
	{"client_gives_up", client_gives_up_client, client_gives_up_server},
	{"a_thousand", a_thousand_client, a_thousand_server},
	{NULL, NULL, NULL},
};
