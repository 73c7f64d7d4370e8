// SPDX-License-Identifier: Apache-2.0
// Addresses and ports: resolved, bound, taken, and listened on.
#include "stage.h"

static void resolve(const char* to) {
	struct rdma_cm_id* id = new_id(channel, RDMA_PS_TCP);
	if (CALL(rdma_resolve_addr(id, NULL, address(to, port), 2000)) == 0) next(channel);
}
static void absent_client(void) { resolve(absent_address); }
static void no_route_client(void) { resolve(unrouted_address); }

static void foreign_address_server(void) {
	CALL(rdma_bind_addr(new_id(channel, RDMA_PS_TCP), address(unrouted_address, port)));
}

static void port_in_use_server(void) {
	struct rdma_cm_id *first = new_id(channel, RDMA_PS_TCP), *second = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_bind_addr(first, address(server_address, port)));
	CALL(rdma_bind_addr(second, address(server_address, port)));
	CALL(rdma_bind_addr(second, address("0.0.0.0", port)));
	CALL(rdma_bind_addr(second, address(server_address, port + 1)));
	CALL(rdma_bind_addr(second, address(server_address, port + 2)));
	CALL(rdma_destroy_id(first));
	CALL(rdma_bind_addr(new_id(channel, RDMA_PS_TCP), address(server_address, port)));
	CALL(rdma_bind_addr(new_id(channel, RDMA_PS_UDP), address(server_address, port)));
}

static void port_of_another_process_server(void) {
	listener_on(channel, RDMA_PS_TCP);
	signal_other();
	wait_for_other();
}
static void port_of_another_process_client(void) {
	wait_for_other();
	struct rdma_cm_id* id = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_bind_addr(id, address(server_address, port)));
	CALL(rdma_bind_addr(id, address("0.0.0.0", port)));
	CALL(rdma_bind_addr(id, address(server_address, port + 1)));
	signal_other();
}

// A loopback address is one more any address, without a device.
static void bind_loopback_server(void) {
	struct rdma_cm_id *first = new_id(channel, RDMA_PS_TCP), *second = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_bind_addr(first, address("127.0.0.1", port)));
	say("%s\n", first->verbs ? "a device" : "no device");
	CALL(rdma_bind_addr(second, address(server_address, port)));
	CALL(rdma_bind_addr(second, address("127.0.0.2", port)));
	CALL(rdma_bind_addr(second, address("127.0.0.2", port + 1)));
	if (CALL(rdma_resolve_addr(second, NULL, address(server_address, port), 2000)) == 0) next(channel);
	CALL(rdma_listen(first, 1));
	signal_other();
	struct rdma_cm_id* id = next(channel);
	CALL(rdma_reject(id, "no", 2));
	MUST(rdma_destroy_id(id) == 0);
}
static void connects_to_the_loopback_client(void) {
	struct rdma_conn_param please = conn_param_with_text("please");
	wait_for_other();
	struct rdma_cm_id* id = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_resolve_addr(id, NULL, address("127.0.0.1", port), 2000));
	next(channel);
	MUST(rdma_resolve_route(id, 2000) == 0);
	skip(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	add_qp(id);
	CALL(rdma_connect(id, &please));
	next(channel);
	signal_other();
}
static void connects_to_the_loopback_server(void) {
	struct rdma_conn_param hello = conn_param_with_text("hello");
	struct rdma_cm_id* listener = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_bind_addr(listener, address("127.0.0.1", port)));
	CALL(rdma_listen(listener, 1));
	signal_other();
	struct rdma_cm_id* id = next(channel);
	add_qp(id);
	CALL(rdma_accept(id, &hello));
	next(channel);
	wait_for_other();
}

static void listen_twice_server(void) {
	struct rdma_cm_id* id = new_id(channel, RDMA_PS_TCP);
	CALL(rdma_bind_addr(id, address(server_address, port)));
	CALL(rdma_listen(id, 1));
	CALL(rdma_listen(id, 1));
}
static void listen_unbound_server(void) { CALL(rdma_listen(new_id(channel, RDMA_PS_TCP), 1)); }

static void reuse_address_server(void) {
	int on = 1;
	struct rdma_cm_id* ids[3];
	for (int i = 0; i < 3; ++i) {
		ids[i] = new_id(channel, RDMA_PS_TCP);
		if (i < 2) CALL(rdma_set_option(ids[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on));
		CALL(rdma_bind_addr(ids[i], address(server_address, port)));
	}
	CALL(rdma_listen(ids[0], 1));
	CALL(rdma_listen(ids[1], 1));
	CALL(rdma_destroy_id(ids[0]));
	CALL(rdma_listen(ids[1], 1));
}

const struct scenario addresses[] = {
	{"absent", absent_client, NULL},
	{"no_route", no_route_client, NULL},
	{"foreign_address", NULL, foreign_address_server},
	{"port_in_use", NULL, port_in_use_server},
	{"port_of_another_process", port_of_another_process_client, port_of_another_process_server},
	{"bind_loopback", refused_client, bind_loopback_server},
	{"connects_to_the_loopback", connects_to_the_loopback_client, connects_to_the_loopback_server},
	{"listen_twice", NULL, listen_twice_server},
	{"listen_unbound", NULL, listen_unbound_server},
	{"reuse_address", NULL, reuse_address_server},
	{NULL, NULL, NULL},
};
