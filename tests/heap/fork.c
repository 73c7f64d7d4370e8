// SPDX-License-Identifier: Apache-2.0
/* A parent and its child both store in inherited memory and verify it: the child sees what the
   memory held at the fork, and neither sees what the other stores. Then the programs that the
   parent starts still work. With an argument, the program uses no RDMA device. */
#include <infiniband/verbs.h>
#include <spawn.h>

#include "memory.h"

enum { PAGES = 300 };

static void wait_for_byte(int end) {
	char byte;
	EXPECT(read(end, &byte, 1) == 1);
}
static void send_byte(int end) { EXPECT(write(end, "", 1) == 1); }

static void store(char* memory, char value) {
	for (int i = 0; i < PAGES; ++i) memory[i * PAGE + i] = value;
}
static int holds(const char* memory, char value) {
	for (int i = 0; i < PAGES; ++i)
		if (memory[i * PAGE + i] != value) return 0;
	return 1;
}

static void fork_and_verify(char* memory) {
	int to_child[2], to_parent[2];
	EXPECT(pipe(to_child) == 0 && pipe(to_parent) == 0);
	store(memory, 'a');
	const pid_t child = fork();
	if (child == 0) {
		wait_for_byte(to_child[0]);
		EXPECT(holds(memory, 'a'));
		EXPECT(!in_heap(memory));
		store(memory, 'c');
		send_byte(to_parent[1]);
		wait_for_byte(to_child[0]);
		EXPECT(holds(memory, 'c'));
		free(memory);
		free(aligned_alloc(PAGE, PAGE));
		_exit(0);
	}
	store(memory, 'p');
	send_byte(to_child[1]);
	wait_for_byte(to_parent[0]);
	EXPECT(holds(memory, 'p'));
	store(memory, 'q');
	send_byte(to_child[1]);
	int status = -1;
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
	EXPECT(holds(memory, 'q'));
	for (int i = 0; i < 2; ++i) close(to_child[i]), close(to_parent[i]);
}

static void start_programs(void) {
	extern char** environ;
	char* arguments[] = {"true", NULL};
	pid_t child;
	int status = -1;
	EXPECT(posix_spawnp(&child, "true", NULL, NULL, arguments, environ) == 0);
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
	EXPECT(system("true") == 0);
	child = vfork();
	if (child == 0) {
		execvp("true", arguments);
		_exit(1);
	}
	EXPECT(waitpid(child, &status, 0) == child && status == 0);
}

static void fork_with_a_device(char* early) {
	int devices;
	struct ibv_device** list = ibv_get_device_list(&devices);
	EXPECT(list && devices > 0);
	struct ibv_context* context = ibv_open_device(list[0]);
	EXPECT(context != NULL);
	struct ibv_pd* pd = ibv_alloc_pd(context);
	char* memory = aligned_alloc(PAGE, PAGES * PAGE);
	struct ibv_mr* region = ibv_reg_mr(pd, memory, PAGES * PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	EXPECT(region != NULL);
	fork_and_verify(memory);
	fork_and_verify(early);
	EXPECT(ibv_dereg_mr(region) == 0);
	free(memory);
	EXPECT(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	ibv_free_device_list(list);
}

int main(int count, char** arguments) {
	(void)arguments;
	alarm(30);
	char* early = aligned_alloc(PAGE, PAGES * PAGE);
	fork_and_verify(early);
	if (count == 1) fork_with_a_device(early);
	start_programs();
	puts(in_heap(early) ? "heap" : "none");
	free(early);
	return 0;
}
