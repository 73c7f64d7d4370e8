// SPDX-License-Identifier: Apache-2.0
// Processes that are killed, end or fork.
#include "stage.h"

#include <signal.h>
#include <sys/wait.h>

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

const struct scenario deaths[] = {
	{"client_killed", client_killed_client, client_killed_server},
	{"client_exits", client_exits_client, client_killed_server},
	{"listener_killed", refused_client, listener_killed_server},
	{"server_killed", server_killed_client, server_killed_server},
	{"server_killed_beside_another", server_killed_client, server_killed_beside_another_server},
	{"fork", fork_client, fork_server},
	{NULL, NULL, NULL},
};
