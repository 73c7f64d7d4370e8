// SPDX-License-Identifier: Apache-2.0
/*
 * tcp_check PORT | tcp_check ADDRESS PORT ROUNDS: an ordinary TCP program that compares its data.
 *
 * The server serves one connection. In each round the client sends 1 to 200,000 bytes and the
 * server sends them back; the client compares every byte. Exits with 1 on a wrong byte or an error.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { size_max = 200000 };

static unsigned char buffer[size_max], expected[size_max];

static void fail(const char* what) {
	perror(what);
	exit(1);
}

/* Returns 0 at the end of the stream. */
static int receive_all(int socket, void* memory, size_t size) {
	for (size_t had = 0; had < size;) {
		const ssize_t got = recv(socket, (char*)memory + had, size - had, 0);
		if (got < 0) fail("recv");
		if (got == 0) return 0;
		had += (size_t)got;
	}
	return 1;
}

static void send_all(int socket, const void* memory, size_t size) {
	for (size_t sent = 0; sent < size;) {
		const ssize_t done = send(socket, (const char*)memory + sent, size - sent, 0);
		if (done <= 0) fail("send");
		sent += (size_t)done;
	}
}

static void serve(int port) {
	const struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	const int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (const struct sockaddr*)&address, sizeof address) != 0) fail("bind");
	if (listen(listener, 1) != 0) fail("listen");
	puts("ready");
	fflush(stdout);
	const int peer = accept(listener, NULL, NULL);
	if (peer < 0) fail("accept");
	long rounds = 0;
	for (uint32_t size; receive_all(peer, &size, sizeof size); ++rounds) {
		if (size > size_max || !receive_all(peer, buffer, size)) fail("half a message");
		send_all(peer, buffer, size);
	}
	printf("server: %ld rounds\n", rounds);
	close(peer);
	close(listener);
}

static void ask(const char* host, int port, long rounds) {
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("address");
	const int server = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(server, (const struct sockaddr*)&address, sizeof address) != 0) fail("connect");
	for (long round = 0; round < rounds; ++round) {
		const uint32_t size = (uint32_t)(1 + round * 7919 % size_max);
		for (uint32_t i = 0; i < size; ++i) expected[i] = (unsigned char)(i * 31 + i / 251 + (uint32_t)round);
		send_all(server, &size, sizeof size);
		send_all(server, expected, size);
		memset(buffer, 0, size);
		if (!receive_all(server, buffer, size)) fail("the server is gone");
		if (memcmp(buffer, expected, size) != 0) {
			printf("round %ld: wrong bytes\n", round);
			exit(1);
		}
	}
	printf("client: %ld rounds, every byte right\n", rounds);
	close(server);
}

int main(int argc, char** argv) {
	if (argc == 2) serve(atoi(argv[1]));
	else if (argc == 4) ask(argv[1], atoi(argv[2]), atol(argv[3]));
	else return 2;
	return 0;
}
