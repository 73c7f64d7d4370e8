// SPDX-License-Identifier: Apache-2.0
/* registers ROW: ibv_reg_mr() of memory that cannot be registered, or of much memory. Prints the
 * errno value's name, or "registered".
 *
 * unmapped    8 pages, of which the fifth is not mapped
 * large       400 KiB
 * rights      remote write without local write */
#define _GNU_SOURCE
#include <infiniband/verbs.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int main(int argc, char **argv)
{
	const char *row = argc == 2 ? argv[1] : "";
	const size_t page = 4096, length = !strcmp(row, "large") ? 100 * page : 8 * page;
	const int access = !strcmp(row, "rights") ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_LOCAL_WRITE;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	char *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *region;

	if (!pd || memory == MAP_FAILED) {
		perror("set-up");
		return 1;
	}
	if (!strcmp(row, "unmapped"))
		munmap(memory + 4 * page, page);
	region = ibv_reg_mr(pd, memory, length, access);
	puts(region ? "registered" : strerrorname_np(errno));
	return 0;
}
