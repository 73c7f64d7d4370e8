// SPDX-License-Identifier: Apache-2.0
// Scenarios, and the steps that several of them begin with.
#pragma once

#include "side.h"

extern struct rdma_event_channel* channel;  // this side's

// One that plays on one side only has NULL for the other. Each table ends with a NULL name.
struct scenario {
	const char* name;
	void (*client)(void), (*server)(void);
};
extern const struct scenario requests[], addresses[], departures[], calls[], deaths[];

// Listens, and returns the id of the first connection request.
static inline struct rdma_cm_id* asked(struct rdma_cm_id** listener) {
	*listener = listener_on(channel, RDMA_PS_TCP);
	signal_other();
	return next(channel);
}

// Listens, accepts the first request, and returns its id.
static inline struct rdma_cm_id* accepted(void) {
	struct rdma_cm_id *listener, *id = asked(&listener);
	struct rdma_conn_param hello = conn_param_with_text("hello");
	add_qp(id);
	CALL(rdma_accept(id, &hello));
	next(channel);
	return id;
}

// Sends a connection request when the server listens.
static inline struct rdma_cm_id* connecting(void) {
	struct rdma_conn_param please = conn_param_with_text("please");
	wait_for_other();
	struct rdma_cm_id* id = routed(channel, RDMA_PS_TCP);
	CALL(rdma_connect(id, &please));
	return id;
}

// Like connecting(), and waits for the answer.
static inline struct rdma_cm_id* connected(void) {
	struct rdma_cm_id* id = connecting();
	next(channel);
	return id;
}

// The client of scenarios in which it only connects, and is refused.
static inline void refused_client(void) { connected(); }
