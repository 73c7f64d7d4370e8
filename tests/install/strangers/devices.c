// SPDX-License-Identifier: Apache-2.0
/* devices: prints the names of the RDMA devices. */
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	if (list == NULL) return 1;
	for (int i = 0; i < count; ++i) puts(ibv_get_device_name(list[i]));
	ibv_free_device_list(list);
	return 0;
}
