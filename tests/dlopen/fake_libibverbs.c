// SPDX-License-Identifier: Apache-2.0
// A libibverbs.so.1 for tests: it has one device of its own, and writes a line for each call that
// arrives to the file that FAKE_LOG names. Its list of devices comes, as rdma-core's does, from a
// provider that it opens (FAKE_PROVIDER) and that registers itself.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *registered;
static struct ibv_device device = {.node_type = IBV_NODE_CA, .name = "fake0", .dev_name = "uverbs99"};

bool verbs_allow_disassociate_destroy;

static void record(const char *format, ...)
{
	FILE *log = fopen(getenv("FAKE_LOG"), "a");
	if (!log) abort();
	va_list arguments;
	va_start(arguments, format);
	vfprintf(log, format, arguments);
	va_end(arguments);
	fclose(log);
}

struct ibv_device **ibv_get_device_list(int *count)
{
	record("ibv_get_device_list\n");
	const char *provider = getenv("FAKE_PROVIDER");
	if (provider && !registered && !dlopen(provider, RTLD_NOW)) record("no provider: %s\n", dlerror());
	struct ibv_device **list = calloc(2, sizeof *list);
	if (!provider || registered) list[0] = &device;
	if (count) *count = list[0] != NULL;
	return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
const char *ibv_get_device_name(struct ibv_device *asked) { return asked->name; }

// For providers.
void verbs_register_driver_34(const void *operations)
{
	record("verbs_register_driver_34 %s\n", (const char *)operations);
	registered = operations;
}

// With the most arguments, and of all kinds.
void __verbs_log(void *context, unsigned level, const char *format, ...)
{
	char text[400];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	errno = 0;
	record("__verbs_log %s %u %s\n", (const char *)context, level, text);
}

int ibv_dontfork_range(void *base, size_t size)
{
	record("ibv_dontfork_range %p %zu\n", base, size);
	return 12;
}
