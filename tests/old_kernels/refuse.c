// SPDX-License-Identifier: Apache-2.0
// Runs a program without certain system calls, as on an older kernel or under a filter of a
// container: each of these calls fails with the given errno value.
//
//   refuse CALL[=ARGUMENT:VALUE]...:ERRNO ... -- PROGRAM [ARGUMENT ...]
//
// With ARGUMENT=VALUE only those calls are refused whose argument (0 to 5) has this value. Example:
//
//   refuse epoll_pwait2:ENOSYS fcntl:1=1033:EPERM -- verbena doctor
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char* name;
	unsigned value;
} calls[] =
	{
		{"add_key", SYS_add_key},
		{"clone3", SYS_clone3},
		{"epoll_pwait2", SYS_epoll_pwait2},
		{"fcntl", SYS_fcntl},
		{"getrandom", SYS_getrandom},
		{"getsockopt", SYS_getsockopt},
		{"io_uring_setup", SYS_io_uring_setup},
		{"keyctl", SYS_keyctl},
		{"memfd_create", SYS_memfd_create},
		{"membarrier", SYS_membarrier},
		{"personality", SYS_personality},
		{"pidfd_open", SYS_pidfd_open},
		{"process_vm_readv", SYS_process_vm_readv},
		{"setns", SYS_setns},
		{"setsockopt", SYS_setsockopt},
		{"unshare", SYS_unshare},
		{"userfaultfd", SYS_userfaultfd},
},
  errors[] = {{"ENOSYS", ENOSYS}, {"EPERM", EPERM}, {"EINVAL", EINVAL}, {"ENOPROTOOPT", ENOPROTOOPT}};

#define LENGTH(array) (sizeof(array) / sizeof *(array))
#define FIND(table, text) find(table, LENGTH(table), text)

static unsigned find(const void* table, size_t length, const char* name) {
	const __typeof__(*calls)* entry = table;
	for (size_t i = 0; i < length; ++i)
		if (strcmp(entry[i].name, name) == 0) return entry[i].value;
	fprintf(stderr, "refuse: unknown word %s\n", name);
	exit(2);
}

static struct sock_filter program[256];
static unsigned short length;

static void add(struct sock_filter instruction) { program[length++] = instruction; }
static void load(size_t offset) { add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset)); }
// Skips `count` instructions unless the loaded word is `value`.
static void unless(unsigned value, unsigned char count) {
	add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count));
}

// Adds the rule CALL[:ARGUMENT=VALUE...]:ERRNO.
static void add_rule(char* rule) {
	char* words[8];
	unsigned char count = 0;
	for (char* word = strtok(rule, ":"); word && count < LENGTH(words); word = strtok(NULL, ":")) words[count++] = word;
	if (count < 2) fprintf(stderr, "refuse: a rule is CALL:ERRNO\n"), exit(2);
	const unsigned error = FIND(errors, words[count - 1]);
	const unsigned char conditions = count - 2;
	load(offsetof(struct seccomp_data, nr));
	unless(FIND(calls, words[0]), (unsigned char)(2 * conditions + 1));
	for (unsigned char i = 0; i < conditions; ++i) {
		unsigned argument, value;
		if (sscanf(words[1 + i], "%u=%u", &argument, &value) != 2 || argument > 5)
			fprintf(stderr, "refuse: a condition is ARGUMENT=VALUE\n"), exit(2);
		load(offsetof(struct seccomp_data, args) + argument * sizeof(__u64));
		unless(value, (unsigned char)(2 * (conditions - i) - 1));
	}
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error));
}

int main(int argc, char** argv) {
	int at = 1;
	for (; at < argc && strcmp(argv[at], "--") != 0; ++at) add_rule(argv[at]);
	if (at + 1 >= argc) return fprintf(stderr, "usage: %s RULE ... -- PROGRAM [ARGUMENT ...]\n", argv[0]), 2;
	add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
	const struct sock_fprog filter = {length, program};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
		return perror("refuse: seccomp"), 2;
	execvp(argv[at + 1], argv + at + 1);
	return perror(argv[at + 1]), 2;
}
