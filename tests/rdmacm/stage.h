// SPDX-License-Identifier: Apache-2.0
// Plays a scenario: each side is a process with its own event channel, and two pipes join them.
// Their output is printed when both have ended. Only one source file includes this header.
#pragma once

#include "side.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

const char *server_address, *client_address, *absent_address, *unrouted_address;
int port, lines, to_other, from_other;

static struct rdma_event_channel* channel;  // this side's

struct scenario {
	const char* name;
	void (*client)(void), (*server)(void);
};

enum { CLIENT, SERVER };
static int to[2][2];  // the two pipes: to[SERVER] is read by the server and written by the client

// Starts the process of one side, in the network namespace whose file is `network`, if any.
static pid_t start(int who, void (*side)(void), const char* network, FILE* output) {
	if (!side) return 0;
	const pid_t pid = fork();
	if (pid != 0) return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	lines = fileno(output), to_other = to[!who][1], from_other = to[who][0];
	// Otherwise wait_for_other() would not notice that the other side has ended.
	close(to[!who][0]), close(to[who][1]);
	if (network) MUST(setns(open(network, O_RDONLY | O_CLOEXEC), CLONE_NEWNET) == 0);
	channel = new_channel();
	side();
	exit(0);  // as at the end of main(): the NIC's exit handlers run
}

static void show(const char* who, FILE* output, int status) {
	char line[256];
	rewind(output);
	while (fgets(line, sizeof line, output)) printf("%s: %s", who, line);
	if (status != 0)
		printf("%s: %s %d\n", who, WIFSIGNALED(status) ? "ended by signal" : "status",
			WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

// Plays the scenario that the command line names. Returns the exit code of the program.
static inline int play(const struct scenario* scenarios, size_t count, int argc, char** argv) {
	if (argc < 7)
		return fprintf(stderr, "usage: %s SCENARIO SERVER CLIENT ABSENT UNROUTED PORT [NAMESPACE]\n", argv[0]), 2;
	server_address = argv[2], client_address = argv[3], absent_address = argv[4], unrouted_address = argv[5],
	port = atoi(argv[6]);
	for (size_t i = 0; i < count; ++i) {
		const struct scenario* one = &scenarios[i];
		if (strcmp(one->name, argv[1]) != 0) continue;
		FILE* outputs[2] = {tmpfile(), tmpfile()};
		if (!outputs[0] || !outputs[1] || pipe(to[CLIENT]) != 0 || pipe(to[SERVER]) != 0) return perror("events"), 2;
		const pid_t sides[2] = {
			start(CLIENT, one->client, argv[7], outputs[CLIENT]), start(SERVER, one->server, NULL, outputs[SERVER])};
		for (int end = 0; end < 4; ++end) close(to[end / 2][end % 2]);
		for (int who = CLIENT; who <= SERVER; ++who) {
			int status = 0;
			if (sides[who]) waitpid(sides[who], &status, 0);
			show(who == CLIENT ? "client" : "server", outputs[who], status);
		}
		return 0;
	}
	return fprintf(stderr, "there is no scenario %s; the end of events.c lists them\n", argv[1]), 2;
}
