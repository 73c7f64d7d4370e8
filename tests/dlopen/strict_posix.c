// SPDX-License-Identifier: Apache-2.0
// A program for strict POSIX, in which the name signal() stands for __sysv_signal. It refers to
// functions of libc that the NIC interposes, and to libibverbs.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

int main(void)
{
	struct sigaction action;
	sigset_t mask;
	struct stat status;
	struct ibv_device **list = ibv_get_device_list(NULL);
	if (!list || signal(SIGUSR1, SIG_IGN) == SIG_ERR) return 1;
	ibv_free_device_list(list);
	const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || close(fd) != 0 || stat("/dev/null", &status) != 0) return 1;
	return sigaction(SIGUSR1, NULL, &action) != 0 || action.sa_handler != SIG_IGN ||
	       pthread_sigmask(SIG_BLOCK, NULL, &mask) != 0;
}
