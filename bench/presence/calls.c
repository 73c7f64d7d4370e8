// SPDX-License-Identifier: Apache-2.0
// Times one call on a file that is not ours: `calls CALL PATH COUNT` prints the nanoseconds that
// one call took, by the CPU time of this thread.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double cpu_ns(void) {
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

int main(int count, char** words) {
	if (count != 4) return fprintf(stderr, "usage: calls open|stat|fstat PATH COUNT\n"), 2;
	const char* path = words[2];
	const long calls = atol(words[3]);
	const int kept = open(path, O_RDONLY | O_CLOEXEC);
	if (kept < 0 || calls < 1) return perror(path), 1;
	struct stat status;
	const double begin = cpu_ns();
	if (strcmp(words[1], "open") == 0)
		for (long i = 0; i < calls; i++) close(open(path, O_RDONLY | O_CLOEXEC));
	else if (strcmp(words[1], "stat") == 0)
		for (long i = 0; i < calls; i++) stat(path, &status);
	else
		for (long i = 0; i < calls; i++) fstat(kept, &status);
	printf("%.2f\n", (cpu_ns() - begin) / (double)calls);
	return 0;
}
