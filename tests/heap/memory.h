// SPDX-License-Identifier: Apache-2.0
/* Helpers for the programs of this folder, which run with and without the heap. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096

#define EXPECT(condition)                                                                 \
	do {                                                                                  \
		if (!(condition)) {                                                               \
			fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition); \
			exit(1);                                                                      \
		}                                                                                 \
	} while (0)

/* 1 if the address lies in the heap's file, by the kernel's own list. */
static inline int in_heap(const void* address) {
	FILE* maps = fopen("/proc/self/maps", "re");
	char line[512];
	int found = 0;
	while (maps && fgets(line, sizeof line, maps)) {
		unsigned long begin, end;
		if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && (uintptr_t)address >= begin && (uintptr_t)address < end)
			found = strstr(line, "verbena-heap") != NULL;
	}
	if (maps) fclose(maps);
	return found;
}

/* Keeps the compiler from knowing the value. */
static inline size_t opaque(size_t value) {
	volatile size_t hidden = value;
	return hidden;
}
