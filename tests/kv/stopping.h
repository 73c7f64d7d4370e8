// SPDX-License-Identifier: Apache-2.0
/* stop_process(pid): stops a process, and returns when it has stopped. Include it after defining
 * _POSIX_C_SOURCE. */
#ifndef STOPPING_H
#define STOPPING_H

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static inline void stop_process(pid_t pid) {
	char path[64], line[256];
	kill(pid, SIGSTOP);
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	for (;;) {
		FILE* file = fopen(path, "r");
		if (file == NULL) return;
		const char* read = fgets(line, sizeof line, file);
		fclose(file);
		if (read == NULL || strstr(line, ") T ") != NULL) return;
		sched_yield();
	}
}

#endif
