// SPDX-License-Identifier: Apache-2.0
// Connections that the programs end.
#include "stage.h"

// A disconnect is answered by the peer's program, which disconnects too.
static void leave(struct rdma_cm_id* id) {
	CALL(rdma_disconnect(id));
	next(channel);
	next(channel);
}
static void answer_leave(struct rdma_cm_id* id) {
	next(channel);
	CALL(rdma_disconnect(id));
	CALL(rdma_disconnect(id));
	next(channel);
}
static void client_disconnects_client(void) { leave(connected()); }
static void client_disconnects_server(void) { answer_leave(accepted()); }
static void server_disconnects_client(void) { answer_leave(connected()); }
static void server_disconnects_server(void) { leave(accepted()); }
static void unanswered_disconnect_client(void) {
	CALL(rdma_disconnect(connected()));
	next_within(channel, 1000);
	signal_other();
	next(channel);
}
static void unanswered_disconnect_server(void) {
	struct rdma_cm_id* id = accepted();
	next(channel);
	wait_for_other();
	rdma_destroy_qp(id);
	CALL(rdma_destroy_id(id));
}
static void both_disconnect_server(void) {
	struct rdma_cm_id* id = accepted();
	signal_other();
	wait_for_other();
	leave(id);
}
static void both_disconnect_client(void) {
	struct rdma_cm_id* id = connected();
	signal_other();
	wait_for_other();
	leave(id);
}

static void destroy_connected_client(void) {
	struct rdma_cm_id* id = connected();
	wait_for_other();
	rdma_destroy_qp(id);
	CALL(rdma_destroy_id(id));
}
static void destroy_connected_server(void) {
	accepted();
	signal_other();
	next(channel);
}

const struct scenario departures[] = {
	{"client_disconnects", client_disconnects_client, client_disconnects_server},
	{"server_disconnects", server_disconnects_client, server_disconnects_server},
	{"unanswered_disconnect", unanswered_disconnect_client, unanswered_disconnect_server},
	{"both_disconnect", both_disconnect_client, both_disconnect_server},
	{"destroy_connected", destroy_connected_client, destroy_connected_server},
	{NULL, NULL, NULL},
};
