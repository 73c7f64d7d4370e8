// SPDX-License-Identifier: Apache-2.0
// A provider for tests. Like those of rdma-core it registers itself when it is loaded. It refers to
// the functions of libibverbs.so.1 by their version IBVERBS_PRIVATE_34.
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void verbs_register_driver_34(const void *operations);
void __verbs_log(void *context, unsigned level, const char *format, ...);
int execute_ioctl(void *context, void *command);
int ibv_dontfork_range(void *base, size_t size);
extern bool verbs_allow_disassociate_destroy;

__attribute__((constructor)) static void load(void)
{
	verbs_register_driver_34("operations");
	for (int time = 1; time <= 2; ++time) {  // the first call looks the function up
		errno = 7;
		__verbs_log("context", 3, "%d|%d %d %d %d %d %d|%.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f %.1f|%d %d", time, 1, 2, 3,
		            4, 5, 6, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, (int)verbs_allow_disassociate_destroy, errno);
	}
	const int forked = ibv_dontfork_range((void *)0x1000, 42);
	const int missing = execute_ioctl(NULL, NULL);
	__verbs_log("results", 0, "%d %d", forked, missing);
}
