// SPDX-License-Identifier: Apache-2.0
// A library to preload into a program on the NIC, so that its process accepts no link: connections
// of its peers wait in the queue of its socket, unanswered.
#include <cerrno>

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

extern "C" int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
	int domain = 0;
	socklen_t size = sizeof domain;
	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX) {
		errno = EAGAIN;
		return -1;
	}
	return static_cast<int>(syscall(SYS_accept4, fd, address, length, flags));
}
