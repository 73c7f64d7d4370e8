// SPDX-License-Identifier: Apache-2.0
// Uses the descriptors of an open device as programs do. Prints a line for each fault.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"

static int is_device(int fd, struct ibv_device* device) {
	struct stat status;
	return fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) &&
		status.st_rdev == makedev(231, 192 + (unsigned)ibv_get_device_index(device));
}

static int is_silent(int fd) {
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	return poll(&ready, 1, 0) == 0;
}

int main(void) {
	struct ibv_device** list = ibv_get_device_list(NULL);
	struct ibv_device* device = list ? list[0] : NULL;
	struct ibv_context* context = device ? ibv_open_device(device) : NULL;
	if (!context) return puts("no device"), 1;

	EXPECT(is_device(context->cmd_fd, device) && is_silent(context->cmd_fd));
	EXPECT((fcntl(context->cmd_fd, F_GETFD) & FD_CLOEXEC) != 0);
	int command = dup(context->cmd_fd), events = dup(context->async_fd);
	EXPECT(is_device(command, device) && is_silent(events));
	EXPECT(fcntl(command, F_SETFL, O_NONBLOCK) == 0);
	EXPECT(fcntl(events, F_SETFL, fcntl(events, F_GETFL) | O_NONBLOCK) == 0);
	struct ibv_async_event event;
	EXPECT(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);

	// A child closes what it inherited; the parent's context works on.
	pid_t child = fork();
	if (child == 0) _exit(ibv_close_device(context));
	int status = -1;
	EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	EXPECT(is_device(context->cmd_fd, device));
	struct ibv_pd* pd = ibv_alloc_pd(context);
	EXPECT(pd != NULL && ibv_dealloc_pd(pd) == 0);

	int closed = context->cmd_fd;
	EXPECT(ibv_close_device(context) == 0);
	EXPECT(fcntl(closed, F_GETFD) == -1 && errno == EBADF);
	EXPECT(is_device(command, device));
	ibv_free_device_list(list);
	return faults > 0;
}
