// SPDX-License-Identifier: Apache-2.0
// libibverbs as programs use it that are not linked with it: each function is looked up by its name
// in a library that dlopen() has opened.
//
// Errors: exits with status 1 and a line on stderr if something cannot be found.
#pragma once

#define _GNU_SOURCE  // dlvsym
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>

// verbs.h defines macros of these names; here the names of the functions are meant.
#undef ibv_query_port
#undef ibv_reg_mr

// X(function, the version by which a program may ask for it)
#define VERBS(X)                               \
	X(ibv_get_device_list, "IBVERBS_1.1")      \
	X(ibv_free_device_list, "IBVERBS_1.1")     \
	X(ibv_get_device_name, "IBVERBS_1.1")      \
	X(ibv_open_device, "IBVERBS_1.1")          \
	X(ibv_close_device, "IBVERBS_1.1")         \
	X(ibv_query_device, "IBVERBS_1.1")         \
	X(ibv_query_port, "IBVERBS_1.1")           \
	X(ibv_query_gid, "IBVERBS_1.1")            \
	X(ibv_alloc_pd, "IBVERBS_1.1")             \
	X(ibv_dealloc_pd, "IBVERBS_1.1")           \
	X(ibv_reg_mr, "IBVERBS_1.1")               \
	X(ibv_reg_mr_iova2, "IBVERBS_1.8")         \
	X(ibv_reg_dmabuf_mr, "IBVERBS_1.12")       \
	X(ibv_dereg_mr, "IBVERBS_1.1")             \
	X(ibv_create_comp_channel, "IBVERBS_1.0")  \
	X(ibv_destroy_comp_channel, "IBVERBS_1.0") \
	X(ibv_create_cq, "IBVERBS_1.1")            \
	X(ibv_destroy_cq, "IBVERBS_1.1")           \
	X(ibv_create_qp, "IBVERBS_1.1")            \
	X(ibv_modify_qp, "IBVERBS_1.1")            \
	X(ibv_query_qp, "IBVERBS_1.1")             \
	X(ibv_destroy_qp, "IBVERBS_1.1")           \
	X(ibv_query_ece, "IBVERBS_1.10")           \
	X(ibv_set_ece, "IBVERBS_1.10")             \
	X(ibv_fork_init, "IBVERBS_1.1")            \
	X(ibv_get_async_event, "IBVERBS_1.1")      \
	X(ibv_event_type_str, "IBVERBS_1.1")       \
	X(ibv_wc_status_str, "IBVERBS_1.1")

struct verbs {
#define MEMBER(function, version) __typeof__(&function) function;
	VERBS(MEMBER)
#undef MEMBER
};

static inline void fail(const char* what, const char* name) {
	const char* reason = dlerror();
	fprintf(stderr, "%s %s: %s\n", what, name, reason ? reason : "failed");
	exit(1);
}

static inline void* look_up(void* library, const char* name, const char* version) {
	void* function = version ? dlvsym(library, name, version) : dlsym(library, name);
	if (!function) fail("no function", name);
	return function;
}

// Opens libibverbs by one of the names that programs use, as plug-ins do: for this object alone.
static inline void* open_library(const char* name) {
	void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library) fail("no library", name);
	return library;
}

// With versions as NCCL does, else by the name alone.
static inline struct verbs find_verbs(void* library, int with_versions) {
	struct verbs found;
#define FIND(function, version) \
	found.function = (__typeof__(found.function))look_up(library, #function, with_versions ? version : NULL);
	VERBS(FIND)
#undef FIND
	return found;
}
