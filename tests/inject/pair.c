// SPDX-License-Identifier: Apache-2.0
// Two processes that exchange messages over the NIC: by verbs, rdma_cm or rsockets.
//
//   pair KIND SIDE DESCRIPTOR
//
// KIND is verbs, rdma_cm or rsocket, SIDE is server or client, DESCRIPTOR a socket to the other
// side. Prints "ready" and waits for a line on its input before it makes its first call, so that
// run.py can attach strace when the dynamic loader has done its work.
#include "side.h"

#include <signal.h>
#include <sys/prctl.h>

int other;
const char* side_name;

int main(int argc, char** argv) {
	static const struct {
		const char* name;
		void (*play)(bool server);
	} kinds[] = {{"verbs", play_verbs}, {"rdma_cm", play_rdma_cm}, {"rsocket", play_rsocket}};
	if (argc != 4) return fprintf(stderr, "usage: %s KIND server|client DESCRIPTOR\n", argv[0]), 2;
	side_name = argv[2];
	other = atoi(argv[3]);
	signal(SIGPIPE, SIG_IGN);
	prctl(PR_SET_PDEATHSIG, SIGKILL);  // an interrupted run leaves no process behind
	char line[8];
	if (write(1, "ready\n", 6) != 6 || read(0, line, sizeof line) <= 0) return 2;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
		if (strcmp(argv[1], kinds[i].name) == 0) return kinds[i].play(strcmp(argv[2], "server") == 0), DONE;
	return fprintf(stderr, "there is no kind %s\n", argv[1]), 2;
}
