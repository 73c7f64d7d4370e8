// SPDX-License-Identifier: Apache-2.0
/* `reconnect ADDRESS PORT`: connects by rdma_cm until it succeeds, with a line of output for each
 * event that ends an attempt, and then disconnects.
 */
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void demand(int good, const char *what)
{
	if (good)
		return;
	perror(what);
	exit(1);
}

/* Waits for the next event; returns what it was. */
static enum rdma_cm_event_type next_event(struct rdma_event_channel *channel)
{
	struct rdma_cm_event *event;

	demand(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	enum rdma_cm_event_type type = event->event;
	demand(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
	return type;
}

static enum rdma_cm_event_type attempt(struct addrinfo *to)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct rdma_conn_param parameters = {.retry_count = 7};
	struct ibv_qp_init_attr init = {.cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	demand(channel && !rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	demand(!rdma_resolve_addr(id, NULL, to->ai_addr, 2000), "rdma_resolve_addr");
	enum rdma_cm_event_type event = next_event(channel);
	if (event == RDMA_CM_EVENT_ADDR_RESOLVED) {
		demand(!rdma_resolve_route(id, 2000), "rdma_resolve_route");
		demand(next_event(channel) == RDMA_CM_EVENT_ROUTE_RESOLVED, "route");
		demand(!rdma_create_qp(id, NULL, &init), "rdma_create_qp");
		demand(!rdma_connect(id, &parameters), "rdma_connect");
		event = next_event(channel);
		if (event == RDMA_CM_EVENT_ESTABLISHED)
			rdma_disconnect(id);
		rdma_destroy_qp(id);
	}
	rdma_destroy_id(id);
	rdma_destroy_event_channel(channel);
	return event;
}

int main(int argc, char **argv)
{
	struct addrinfo *to;
	enum rdma_cm_event_type event;

	demand(argc == 3 && !getaddrinfo(argv[1], argv[2], NULL, &to), "usage: reconnect ADDRESS PORT");
	do {
		event = attempt(to);
		printf("%s\n", rdma_event_str(event));
		fflush(stdout);
	} while (event != RDMA_CM_EVENT_ESTABLISHED && event != RDMA_CM_EVENT_ADDR_ERROR);
	return 0;
}
