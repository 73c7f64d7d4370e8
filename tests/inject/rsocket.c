// SPDX-License-Identifier: Apache-2.0
// A pair by rsockets, blocking: both sides send all messages and receive the other side's.
#include "side.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rsocket.h>

static int fd;

static void send_all(const unsigned char* from, size_t bytes) {
	while (bytes > 0) {
		const ssize_t sent = rsend(fd, from, bytes, 0);
		if (sent < 0 && errno == EINTR) continue;
		TRY(sent > 0);
		from += sent;
		bytes -= (size_t)sent;
	}
}

static void receive_all(unsigned char* to, size_t bytes) {
	while (bytes > 0) {
		struct pollfd readable = {fd, POLLIN, 0};
		const int ready = rpoll(&readable, 1, WAIT_MS);
		if (ready == 0) lost("data");
		if (ready < 0 && errno == EINTR) continue;
		TRY(ready > 0);
		const ssize_t got = rrecv(fd, to, bytes, 0);
		if (got < 0 && errno == EINTR) continue;
		if (got == 0) errno = ECONNRESET;
		TRY(got > 0);
		to += got;
		bytes -= (size_t)got;
	}
}

// The client may fail before it connects, which shows as the end of `other`.
static int accept_from(int listener) {
	enum { LOOK_MS = 20 };
	TRY(rfcntl(listener, F_SETFL, O_NONBLOCK) == 0);
	for (int looks = 0; looks < 2 * WAIT_MS / LOOK_MS; ++looks) {
		const int accepted = raccept(listener, NULL, NULL);
		if (accepted >= 0) {
			TRY(rfcntl(accepted, F_SETFL, 0) == 0);
			return accepted;
		}
		TRY(errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
		struct pollfd end = {other, POLLIN, 0};
		char byte;
		if (poll(&end, 1, LOOK_MS) == 1 && read(other, &byte, 1) <= 0) {
			errno = ECONNRESET;
			TRY(!"the client has ended");
		}
	}
	lost("connection");
}

void play_rsocket(bool server) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof address;
	TRY((fd = rsocket(AF_INET, SOCK_STREAM, 0)) >= 0);
	if (server) {
		TRY(rbind(fd, (struct sockaddr*)&address, size) == 0);
		TRY(rgetsockname(fd, (struct sockaddr*)&address, &size) == 0);
		TRY(rlisten(fd, 1) == 0);
	}
	struct sockaddr_in theirs;
	exchange(&address, &theirs, sizeof address);
	int listener = -1;
	if (server) {
		listener = fd;
		fd = accept_from(listener);
	} else {
		TRY(rconnect(fd, (struct sockaddr*)&theirs, sizeof theirs) == 0);
	}
	unsigned char* const message = malloc(MESSAGE_BYTES);
	TRY(message);
	for (unsigned i = 0; i < MESSAGES; ++i) {
		fill(message, MESSAGE_BYTES, i);
		if (server) send_all(message, MESSAGE_BYTES);
		receive_all(message, MESSAGE_BYTES);
		check_filled(message, MESSAGE_BYTES, i);
		if (!server) send_all(message, MESSAGE_BYTES);
	}
	rshutdown(fd, SHUT_RDWR);
	rclose(fd);
	if (listener >= 0) rclose(listener);
}
