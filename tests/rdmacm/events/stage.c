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
// Each side is a process with its own event channel, and two pipes join them. In each scenario,
// `signal_other()` and `wait_for_other()` order the steps of the two sides. Their output is printed
// when both have ended.
#include "stage.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

const char *server_address, *client_address, *absent_address, *unrouted_address;
int port, lines, to_other, from_other;
struct rdma_event_channel* channel;

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

static const struct scenario* const tables[] = {requests, addresses, departures, calls, deaths};
enum { TABLES = sizeof tables / sizeof *tables };

// Returns the scenario of this name, or NULL after printing all names.
static const struct scenario* find(const char* name) {
	for (int table = 0; table < TABLES; ++table)
		for (const struct scenario* one = tables[table]; one->name; ++one)
			if (strcmp(one->name, name) == 0) return one;
	fprintf(stderr, "there is no scenario %s. There are:", name);
	for (int table = 0; table < TABLES; ++table)
		for (const struct scenario* one = tables[table]; one->name; ++one) fprintf(stderr, " %s", one->name);
	fprintf(stderr, "\n");
	return NULL;
}

int main(int argc, char** argv) {
	if (argc < 7)
		return fprintf(stderr, "usage: %s SCENARIO SERVER CLIENT ABSENT UNROUTED PORT [NAMESPACE]\n", argv[0]), 2;
	server_address = argv[2], client_address = argv[3], absent_address = argv[4], unrouted_address = argv[5],
	port = atoi(argv[6]);
	const struct scenario* one = find(argv[1]);
	if (!one) return 2;
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
