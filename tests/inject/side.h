// SPDX-License-Identifier: Apache-2.0
// The parts that the two sides of a pair share: each is a process that exchanges messages with the
// other one over the NIC, while run.py makes system calls of one of them fail.
//
// A side ends with one of the statuses below. A call that fails with an errno value is a clean
// error, because a program can handle it; a wait whose event does not come, and wrong data, are
// not.
#pragma once

#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DONE = 0, CLEAN_ERROR = 1, LOST_EVENT = 5, WRONG_DATA = 6 };

enum { MESSAGES = 16, MESSAGE_BYTES = 40000, WAIT_MS = 4000 };

extern int other;  // a socket to the other side
extern const char* side_name;

// A call that must succeed for the side to go on.
#define TRY(condition)                                                                \
	do                                                                                \
		if (!(condition)) {                                                           \
			const int errno_ = errno;                                                 \
			fprintf(stderr, "%s: %s: %s\n", side_name, #condition, strerror(errno_)); \
			exit(errno_ ? CLEAN_ERROR : LOST_EVENT);                                  \
		}                                                                             \
	while (0)

__attribute__((noreturn)) static inline void lost(const char* what) {
	fprintf(stderr, "%s: no %s\n", side_name, what);
	exit(LOST_EVENT);
}

// Waits until the descriptor is readable.
static inline void await(int fd, const char* what) {
	struct pollfd readable = {fd, POLLIN, 0};
	struct timespec start, now;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (;;) {
		const int ready = poll(&readable, 1, WAIT_MS);
		if (ready > 0) return;
		if (ready < 0 && errno != EINTR && errno != ENOMEM) TRY(ready >= 0);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - start.tv_sec > WAIT_MS / 1000) lost(what);
	}
}

// Exchanges `bytes` bytes with the other side. Its end is an error of its own, so a clean one here.
static inline void exchange(const void* mine, void* theirs, size_t bytes) {
	TRY(write(other, mine, bytes) == (ssize_t)bytes);
	await(other, "answer of the other side");
	const ssize_t got = read(other, theirs, bytes);
	if (got == 0) errno = ECONNRESET;
	TRY(got == (ssize_t)bytes);
}
static inline void meet(void) {
	char byte = 0;
	exchange(&byte, &byte, 1);
}

// Message `number` of the side that sends it.
static inline void fill(unsigned char* to, size_t bytes, unsigned number) {
	for (size_t i = 0; i < bytes; ++i) to[i] = (unsigned char)(number * 31 + i * 7);
}
static inline void check_filled(const unsigned char* from, size_t bytes, unsigned number) {
	for (size_t i = 0; i < bytes; ++i)
		if (from[i] != (unsigned char)(number * 31 + i * 7)) {
			fprintf(stderr, "%s: message %u differs at byte %zu\n", side_name, number, i);
			exit(WRONG_DATA);
		}
}

// Each plays one side of its pair.
void play_verbs(bool server);
void play_rdma_cm(bool server);
void play_rsocket(bool server);
