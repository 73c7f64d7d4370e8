// SPDX-License-Identifier: Apache-2.0
// Asks the libraries of two providers about every device, as UCX and libfabric do before they use a
// device directly. The libraries are linked, so they register with libibverbs at start.
//
// Prints one line for each device: its name, and whether it is one of theirs.
#include <infiniband/efadv.h>
#include <infiniband/mlx5dv.h>
#include <stdio.h>

int main(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);
	if (!list) return 1;
	for (int i = 0; i < count; ++i) {
		struct ibv_context *context = ibv_open_device(list[i]);
		if (!context) return 1;
		struct mlx5dv_context mlx5 = {0};
		struct efadv_device_attr efa = {0};
		printf("%s %d %d %d\n", ibv_get_device_name(list[i]), mlx5dv_is_supported(list[i]),
		       mlx5dv_query_device(context, &mlx5) == 0, efadv_query_device(context, &efa, sizeof efa) == 0);
		if (ibv_close_device(context) != 0) return 1;
	}
	ibv_free_device_list(list);
	return 0;
}
