// SPDX-License-Identifier: Apache-2.0
// The restrictions that containers and sandboxes put on a process. Most of them cost the NIC
// nothing, and the line says so.
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>

#include "tools/machine_checks.h"

namespace verbena::tools {
namespace {

// The status with which a forked process ends that runs `work`, or -1.
int status_of_child(const std::function<int()>& work) {
	const pid_t child = fork();
	if (child == 0) _exit(work());
	int status = 0;
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
	return WEXITSTATUS(status);
}

// The rest of the line of /proc/self/status that begins with `field`.
std::string process_status(std::string_view field) {
	std::ifstream file("/proc/self/status");
	for (std::string line; std::getline(file, line);)
		if (line.starts_with(field)) return line.substr(std::min(line.size(), field.size() + 2));
	return {};
}

std::string in_kib(std::uint64_t bytes) { return fmt::format("{} KiB", bytes >> 10); }

Finding check_filter() {
	const std::string mode = process_status("Seccomp");
	if (mode != "2") return {"seccomp", Level::good, "no filter of system calls", ""};
	return {"seccomp", Level::good, "a filter of system calls; the lines about system calls say what it costs", ""};
}

Finding check_shared_memory_folder() {
	const char* const subject = "/dev/shm";
	struct statvfs there{};
	if (statvfs("/dev/shm", &there) != 0)
		return {subject, Level::good, "none; not needed where memfd_create works", ""};
	if ((there.f_flag & ST_RDONLY) != 0)
		return {subject, Level::good, "read-only; not needed where memfd_create works", ""};
	return {subject, Level::good,
		fmt::format("{} free; not needed where memfd_create works", in_kib(there.f_bavail * there.f_frsize)), ""};
}

Finding check_root() {
	struct statvfs there{};
	const bool read_only = statvfs("/", &there) == 0 && (there.f_flag & ST_RDONLY) != 0;
	return {"root file system", Level::good, read_only ? "read-only; the NIC needs no file in it" : "writable", ""};
}

Finding check_locked_memory() {
	rlimit limit{};
	getrlimit(RLIMIT_MEMLOCK, &limit);
	return {"locked memory (ulimit -l)", Level::good,
		fmt::format("{}; not needed: registration pins no memory",
			limit.rlim_cur == RLIM_INFINITY ? "unlimited" : in_kib(limit.rlim_cur)),
		""};
}

// The NIC reads a peer's ordinary memory in this way. A child that reads its parent has the rights
// of any other process of the user: Yama (kernel.yama.ptrace_scope) refuses it what it refuses a
// peer.
Finding check_peer_memory() {
	const char* const subject = "process_vm_readv";
	const char* const cost =
		"RDMA READ of a peer's ordinary memory takes the ring, which needs the peer's processor: allow "
		"process_vm_readv in the seccomp profile, and set kernel.yama.ptrace_scope to 0";
	int mine = 0;
	const pid_t parent = getpid();
	const int status = status_of_child([&] {
		// The page is the same one in parent and child until one of them writes.
		int theirs = 0;
		const iovec here{&theirs, sizeof theirs}, there{&mine, sizeof mine};
		return process_vm_readv(parent, &here, 1, &there, 1, 0) == sizeof theirs ? 0 : errno;
	});
	if (status == 0) return {subject, Level::good, "works", ""};
	return {subject, Level::note, status < 0 ? "fork failed" : std::strerror(status), cost};
}

Finding check_namespaces() {
	const char* const subject = "network namespaces";
	const int status = status_of_child([] {
		// Root needs no user namespace, and in a chroot cannot have one.
		const bool made = unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
		return made ? 0 : errno;
	});
	if (status == 0) return {subject, Level::good, "can be made", ""};
	return {subject, Level::good,
		fmt::format(
			"{}; needed only to have two hosts on one machine", status < 0 ? "fork failed" : std::strerror(status)),
		""};
}

}  // namespace

Findings check_confinement() {
	return {check_filter(), check_shared_memory_folder(), check_root(), check_locked_memory(), check_peer_memory(),
		check_namespaces()};
}

}  // namespace verbena::tools
