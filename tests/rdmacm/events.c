// SPDX-License-Identifier: Apache-2.0
// Plays one scenario of rdma_cm between two processes, or in one. Prints a line for each event and
// each errno, first those of the client, then those of the server. The same program runs on a
// kernel's devices and on ours, so the lines can be compared (test_events.py).
//
//     events SCENARIO SERVER CLIENT ABSENT UNROUTED PORT [NAMESPACE]
//
// SERVER, CLIENT, ABSENT and UNROUTED are IPv4 addresses: of the two sides, of no host, and of a
// network without a route. The client runs in NAMESPACE, the file of a network namespace.
//
// In each scenario, `signal_other()` and `wait_for_other()` order the steps of the two sides.
#include "stage.h"

// Listens, and returns the id of the first connection request.
static struct rdma_cm_id* asked(struct rdma_cm_id** listener) {
	*listener = listener_on(channel, RDMA_PS_TCP);
	signal_other();
	return next(channel);
}

// Listens, accepts the first request, and returns its id.
static struct rdma_cm_id* accepted(void) {
	struct rdma_cm_id *listener, *id = asked(&listener);
	struct rdma_conn_param hello = conn_param_with_text("hello");
	add_qp(id);
	CALL(rdma_accept(id, &hello));
	next(channel);
	return id;
}

// Sends a connection request when the server listens.
static struct rdma_cm_id* connecting(void) {
	struct rdma_conn_param please = conn_param_with_text("please");
	wait_for_other();
	struct rdma_cm_id* id = routed(channel, RDMA_PS_TCP);
	CALL(rdma_connect(id, &please));
	return id;
}

// Like connecting(), and waits for the answer.
static struct rdma_cm_id* connected(void) {
	struct rdma_cm_id* id = connecting();
	next(channel);
	return id;
}

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
static void reject_client(void) { connected(); }

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

static void client_killed_client(void) {
	connected();
	wait_for_other();
	raise(SIGKILL);
}
static void client_killed_server(void) {
	accepted();
	signal_other();
	next(channel);
}

static void client_exits_client(void) {
	connected();
	wait_for_other();
	exit(0);
}

static void listener_killed_server(void) {
	listener_on(channel, RDMA_PS_TCP);
	signal_other();
	MUST(waits(channel, LIMIT_MS));
	raise(SIGKILL);
}

// The server's process is killed. The client's later disconnect is answered by another process of
// that host or, if there is none, by the host's kernel.
static void server_killed_server(void) {
	accepted();
	signal_other();
	raise(SIGKILL);
}
static void server_killed_beside_another_server(void) {
	int ready[2];
	MUST(pipe(ready) == 0);
	if (fork() == 0) {
		close(ready[0]);
		rdma_destroy_event_channel(channel);
		channel = new_channel();
		++port;
		listener_on(channel, RDMA_PS_TCP);
		close(ready[1]);
		poll(&(struct pollfd){from_other, POLLIN, 0}, 1, LIMIT_MS);  // until the client ends
		_exit(0);
	}
	close(ready[1]);
	char byte;
	MUST(read(ready[0], &byte, 1) == 0);  // the child listens, or has ended
	server_killed_server();
}
static void server_killed_client(void) {
	struct rdma_cm_id* id = connected();
	wait_for_other();
	CALL(rdma_disconnect(id));
	next(channel);
}

static void fork_server(void) {
	struct rdma_cm_id* listener = listener_on(channel, RDMA_PS_TCP);
	struct rdma_conn_param hello = conn_param_with_text("hello");
	int status = -1;
	const pid_t child = fork();
	if (child == 0) {
		rdma_destroy_event_channel(channel);
		exit(0);
	}
	MUST(waitpid(child, &status, 0) == child);
	say("child %d\n", status);
	signal_other();
	struct rdma_cm_id* id = next(channel);
	add_qp(id);
	CALL(rdma_accept(id, &hello));
	next(channel);
	const pid_t late = fork();
	if (late == 0) exit(0);
	MUST(waitpid(late, &status, 0) == late);
	say("child %d\n", status);
	signal_other();
	next(channel);
	CALL(rdma_disconnect(id));
	rdma_destroy_qp(id);
	CALL(rdma_destroy_id(id));
	CALL(rdma_destroy_id(listener));
}
static void fork_client(void) {
	struct rdma_cm_id* id = connected();
	wait_for_other();
	CALL(rdma_disconnect(id));
	next(channel);
}

static const struct scenario scenarios[] = {
	{"no_process", no_process_client, NULL},
	{"no_process_datagram", no_process_datagram_client, NULL},
	{"no_listener", no_listener_client, does_not_listen_server},
	{"listens_late", listens_late_client, listens_late_server},
	{"leaves_without_listener", leaves_without_listener_client, does_not_listen_server},
	{"reject", reject_client, reject_server},
	{"port_moves", port_moves_client, port_moves_server},
	{"listener_gone", reject_client, listener_gone_server},
	{"listener_gone_after_reading", listener_gone_after_reading_client, listener_gone_after_reading_server},
	{"client_gives_up", client_gives_up_client, client_gives_up_server},
	{"absent", absent_client, NULL},
	{"no_route", no_route_client, NULL},
	{"foreign_address", NULL, foreign_address_server},
	{"port_in_use", NULL, port_in_use_server},
	{"port_of_another_process", port_of_another_process_client, port_of_another_process_server},
	{"bind_loopback", reject_client, bind_loopback_server},
	{"connects_to_the_loopback", connects_to_the_loopback_client, connects_to_the_loopback_server},
	{"listen_twice", NULL, listen_twice_server},
	{"listen_unbound", NULL, listen_unbound_server},
	{"reuse_address", NULL, reuse_address_server},
	{"client_disconnects", client_disconnects_client, client_disconnects_server},
	{"server_disconnects", server_disconnects_client, server_disconnects_server},
	{"unanswered_disconnect", unanswered_disconnect_client, unanswered_disconnect_server},
	{"both_disconnect", both_disconnect_client, both_disconnect_server},
	{"destroy_connected", destroy_connected_client, destroy_connected_server},
	{"destroy_with_unread", destroy_with_unread_client, NULL},
	{"migrate", migrate_client, NULL},
	{"no_event", no_event_client, NULL},
	{"connect_too_early", connect_too_early_client, NULL},
	{"accept_twice", accept_twice_client, accept_twice_server},
	{"a_thousand", a_thousand_client, a_thousand_server},
	{"client_killed", client_killed_client, client_killed_server},
	{"client_exits", client_exits_client, client_killed_server},
	{"listener_killed", reject_client, listener_killed_server},
	{"server_killed", server_killed_client, server_killed_server},
	{"server_killed_beside_another", server_killed_client, server_killed_beside_another_server},
	{"fork", fork_client, fork_server},
};

int main(int argc, char** argv) { return play(scenarios, sizeof scenarios / sizeof *scenarios, argc, argv); }
