// SPDX-License-Identifier: Apache-2.0
// Calls that come too early, too late or twice, and events that were not read.
#include "stage.h"

static void destroy_with_unread_client(void) {
	struct rdma_cm_id* id = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_resolve_addr(id, address(client_address, 0), address(server_address, port), 2000));
	MUST(waits(channel, LIMIT_MS));
	CALL(rdma_destroy_id(id));
	next_now(channel);
}

static void migrate_client(void) {
	struct rdma_event_channel* second = new_channel();
	struct rdma_cm_id* id = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_resolve_addr(id, address(client_address, 0), address(server_address, port), 2000));
	MUST(waits(channel, LIMIT_MS));
	CALL(rdma_migrate_id(id, second));
	next(second);
	next_now(channel);
	CALL(rdma_resolve_route(id, 2000));
	next(second);
	next_now(channel);
}

static void no_event_client(void) { next_now(channel); }

static void connect_too_early_client(void) {
	struct rdma_conn_param please = conn_param_with_text("please");
	struct rdma_cm_id* id = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_bind_addr(id, address(client_address, 0)));
	add_qp(id);
	CALL(rdma_connect(id, &please));
	CALL(rdma_resolve_route(id, 2000));
	CALL(rdma_resolve_addr(id, NULL, address(server_address, port), 2000));
	next(channel);
	CALL(rdma_connect(id, &please));
	CALL(rdma_resolve_addr(id, NULL, address(server_address, port), 2000));
	CALL(rdma_resolve_route(id, 2000));
	next(channel);
	CALL(rdma_resolve_route(id, 2000));
	CALL(rdma_disconnect(id));
}

static void accept_twice_server(void) {
	struct rdma_conn_param hello = conn_param_with_text("hello");
	struct rdma_cm_id* id = accepted();
	CALL(rdma_accept(id, &hello));
	CALL(rdma_reject(id, NULL, 0));
	signal_other();
	wait_for_other();
}
static void accept_twice_client(void) {
	connected();
	wait_for_other();
	signal_other();
}

const struct scenario calls[] = {
	{"destroy_with_unread", destroy_with_unread_client, NULL},
	{"migrate", migrate_client, NULL},
	{"no_event", no_event_client, NULL},
	{"connect_too_early", connect_too_early_client, NULL},
	{"accept_twice", accept_twice_client, accept_twice_server},
	{NULL, NULL, NULL},
};
