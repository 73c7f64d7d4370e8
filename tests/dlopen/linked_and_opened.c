// SPDX-License-Identifier: Apache-2.0
// A program that is linked with libibverbs and also opens it by name, as a program with plug-ins
// does. Checks that both ways lead to the same NIC, and prints what it found:
//
//     devices N   in the list that both ways give
//     threads N   the progress threads, with a device open by each way
#include "by_name.h"

#include <dirent.h>
#include <string.h>

static void require(int success, const char *what)
{
	if (!success) fail("failed:", what);
}

// The threads with the name of a progress thread, or -1 if a thread has no name of its own yet: it
// names itself when it first runs.
static int progress_threads(void)
{
	int count = 0, unnamed = 0;
	DIR *tasks = opendir("/proc/self/task");
	require(tasks != NULL, "opendir");
	for (struct dirent *task; (task = readdir(tasks));) {
		if (task->d_name[0] == '.') continue;
		char path[300], name[32] = "";
		snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
		FILE *comm = fopen(path, "r");
		if (!comm) continue;
		if (fgets(name, sizeof name, comm)) {
			count += strcmp(name, "verbena\n") == 0;
			unnamed += strncmp(name, "verbena", 7) != 0;
		}
		fclose(comm);
	}
	closedir(tasks);
	return unnamed > 1 ? -1 : count;  // the main thread has the program's name
}

int main(void)
{
	void *library = open_library("libibverbs.so.1");
	const struct verbs by_name = find_verbs(library, 0), by_version = find_verbs(library, 1);
	require(open_library("libibverbs.so") == library, "libibverbs.so is another library");
	require(by_name.ibv_open_device == ibv_open_device, "dlsym finds another function than the linker");
	require(memcmp(&by_name, &by_version, sizeof by_name) == 0, "dlvsym finds other functions than dlsym");

	int linked_count, opened_count;
	struct ibv_device **linked = ibv_get_device_list(&linked_count);
	struct ibv_device **opened = by_name.ibv_get_device_list(&opened_count);
	require(linked_count > 0 && linked_count == opened_count, "another number of devices");
	require(memcmp(linked, opened, (size_t)linked_count * sizeof *linked) == 0, "other devices");

	struct ibv_context *a = ibv_open_device(linked[0]), *b = by_name.ibv_open_device(opened[0]);
	require(a && b, "ibv_open_device");
	int threads;
	do threads = progress_threads();  // the test has a time limit
	while (threads < 0);
	printf("devices %d\nthreads %d\n", linked_count, threads);
	require(by_name.ibv_close_device(a) == 0 && ibv_close_device(b) == 0, "ibv_close_device");
	ibv_free_device_list(opened);
	by_name.ibv_free_device_list(linked);
	return 0;
}
