# SPDX-License-Identifier: Apache-2.0
"""The system calls that may fail, and the errno values that an environment gives them."""

# The errno values that the manual pages document and that an environment causes: limits, filters of
# system calls, shortage, signals. With a + the value is permanent: every call from the first on
# fails, because a kernel that lacks the option, or a filter, refuses each of them.
ERRORS = {
    "accept4": "EMFILE ENOMEM ECONNABORTED EINTR",
    "add_key": "EDQUOT EPERM",
    "bind": "EACCES EADDRINUSE",
    "capget": "EPERM",
    "clone": "EAGAIN",
    "clone3": "EAGAIN ENOSYS",
    "connect": "EAGAIN EINTR EPERM",
    "dup": "EMFILE",
    "epoll_create1": "EMFILE ENOMEM",
    "epoll_ctl": "ENOMEM ENOSPC",
    "epoll_pwait": "EINTR",
    "epoll_pwait2": "EINTR ENOSYS EPERM",
    "epoll_wait": "EINTR",
    "eventfd2": "EMFILE ENOMEM",
    "faccessat2": "ENOSYS EACCES",
    "fallocate": "ENOSPC EINTR ENOSYS",
    "fcntl": "EMFILE EINVAL",
    "fstat": "ENOMEM",
    "ftruncate": "ENOSPC EINTR",
    "getrandom": "EINTR ENOSYS EPERM",
    "getsockname": "ENOBUFS",
    "getsockopt": "ENOPROTOOPT+ EPERM+",
    "ioctl": "ENOTTY+ EPERM+",
    "keyctl": "ENOSYS+ EPERM+",
    "linkat": "EPERM ENOSPC",
    "listen": "EADDRINUSE",
    "lseek": "ESPIPE",
    "madvise": "EINVAL ENOMEM",
    "memfd_create": "EMFILE ENOMEM",
    "mkdir": "EACCES ENOSPC",
    "mmap": "ENOMEM",
    "mprotect": "ENOMEM",
    "mremap": "ENOMEM",
    "msync": "EPERM ENOSYS",
    "newfstatat": "EACCES ENOMEM",
    "openat": "EMFILE EACCES EIO",
    "pidfd_open": "ENOSYS EMFILE",
    "pipe2": "EMFILE",
    "poll": "EINTR ENOMEM",
    "ppoll": "EINTR ENOMEM",
    "prctl": "EPERM",
    "pread64": "EINTR EIO",
    "prlimit64": "EPERM",
    "process_vm_readv": "EPERM+ ENOSYS+",
    "pselect6": "EINTR",
    "pwrite64": "EINTR ENOSPC",
    "read": "EINTR EIO",
    "readlink": "EACCES ENOENT",
    "recvfrom": "EINTR ENOMEM",
    "recvmmsg": "EINTR ENOMEM",
    "recvmsg": "EINTR ENOMEM",
    "rt_sigaction": "EINVAL",
    "rt_sigprocmask": "EINVAL",
    "sched_getparam": "ESRCH",
    "sched_getscheduler": "EPERM ESRCH",
    "sched_setaffinity": "EPERM ESRCH",
    "sched_setscheduler": "EPERM",
    "sendmmsg": "ENOBUFS EINTR",
    "sendmsg": "ENOBUFS EINTR EPERM",
    "sendto": "ENOBUFS EINTR",
    "setsockopt": "ENOPROTOOPT EPERM ENOMEM",
    "socket": "EMFILE EAFNOSUPPORT EPERM",
    "socketpair": "EMFILE",
    "statx": "ENOMEM ENOSYS",
    "tgkill": "ESRCH EPERM",
    "timerfd_create": "EMFILE ENOMEM",
    "timerfd_gettime": "EINVAL",
    "timerfd_settime": "EINVAL",
    "unlinkat": "EACCES",
    "write": "EINTR EAGAIN",
}
# Calls whose failure the C library does not report, or that cannot fail. The failure of a futex
# wake-up, which no environment causes, would stop the C library's own locks. A brk() that fails
# returns the old break and no errno value, which strace cannot do (tests/limits does it instead).
_NOT_INJECTED = (
    "access brk clock_gettime clock_nanosleep close epoll_ctl_old exit exit_group fadvise64 futex getcpu getdents64 "
    "geteuid getpid gettid getuid munmap nanosleep restart_syscall rseq rt_sigreturn sched_getaffinity sched_yield "
    "set_robust_list shutdown shmdt statfs fstatfs sysinfo uname getppid arch_prctl set_tid_address"
)
NOT_INJECTED = frozenset(_NOT_INJECTED.split())
