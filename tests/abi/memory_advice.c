// SPDX-License-Identifier: Apache-2.0
/* The errno values of ibv_advise_mr(3). Prints a line for the first one that is wrong, and at last
 * "done".
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../must.h"

enum { PAGE = 4096 };

static struct ibv_pd *pd;

static int advise(enum ibv_advise_mr_advice advice, uint32_t flags, const void *at, uint32_t length, struct ibv_mr *mr)
{
	struct ibv_sge sge = {(uintptr_t)at, length, mr->lkey};

	return ibv_advise_mr(pd, advice, flags, &sge, 1);
}

int main(void)
{
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH, write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					no_fault = IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
	const uint32_t flush = IBV_ADVISE_MR_FLAG_FLUSH;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *device = list && list[0] ? ibv_open_device(list[0]) : NULL;
	unsigned char *memory =
		mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *everything, *paged, *read_only, *pinned;

	MUST(device && (pd = ibv_alloc_pd(device)) && memory != MAP_FAILED);
	MUST((everything = ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE)));
	MUST((paged = ibv_reg_mr(pd, memory, 2 * PAGE, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE)));
	MUST((read_only = ibv_reg_mr(pd, memory, 2 * PAGE, IBV_ACCESS_ON_DEMAND)));
	MUST((pinned = ibv_reg_mr(pd, memory, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE)));

	MUST(advise(read, flush, memory, 2 * PAGE, paged) == 0 && advise(write, flush, memory, 2 * PAGE, paged) == 0);
	MUST(advise(read, flush, memory, 2 * PAGE + 1, paged) == EFAULT);
	MUST(advise(read, flush, memory, PAGE, pinned) == EINVAL && advise(no_fault, 0, memory, PAGE, pinned) == EINVAL);
	MUST(advise(read, flush, memory, PAGE, read_only) == 0 && advise(write, flush, memory, PAGE, read_only) == EPERM);
	MUST(advise(write, 0, memory, PAGE, read_only) == EPERM);

	MUST(munmap(memory + PAGE, PAGE) == 0);
	MUST(advise(read, flush, memory, PAGE, everything) == 0);
	MUST(advise(read, flush, memory, PAGE + 1, everything) == EFAULT);
	MUST(advise(write, flush, memory + PAGE, 1, paged) == EFAULT);
	/* Only these wait for the pages, or fault them in. */
	MUST(advise(read, 0, memory, 2 * PAGE, paged) == 0 && advise(no_fault, flush, memory, 2 * PAGE, paged) == 0);
	fprintf(stderr, "done\n");
	return 0;
}
