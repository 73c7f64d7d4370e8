/* verbena/kv.h: a client of the Verbena key-value store, in C.
 *
 *     void *store;
 *     if (kv_open("127.0.0.1:7472", &store) != 0) errx(1, "%s", kv_last_error(NULL));
 *     kv_set(store, "key", "value");
 *     char *value;
 *     kv_get(store, "key", &value);
 *     puts(value);
 *     kv_release(value);
 *     kv_close(store);
 *
 * Link with `pkg-config --cflags --libs verbena-kv`. Keys have 1 to 4096 bytes, values 0 B to 64 MiB.
 *
 * Every call returns 0 when it is done, or one of enum kv_result; kv_last_error() says more. A call that sets has been
 * acknowledged by the server when it returns. A handle is one connection to each server; any thread may use it, one
 * call at a time is served. Handles do not survive fork(): a child opens its own. Work goes on only within calls; only
 * with etcd the library has a thread, which watches it.
 */
#ifndef VERBENA_KV_H
#define VERBENA_KV_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define VERBENA_KV_API __attribute__((visibility("default")))
#else
#define VERBENA_KV_API
#endif

enum kv_result {
	KV_OK = 0,
	KV_MISSING = 1,       /* there is no such key (kv_getn, kv_delete, kv_deleten) */
	KV_EMPTY_KEY = -1,
	KV_LONG_KEY = -2,     /* more than 4096 bytes */
	KV_LONG_VALUE = -3,   /* more than 64 MiB, or than the server takes */
	KV_FULL = -4,         /* the store has no room; nothing changed */
	KV_UNSUPPORTED = -5,  /* rendezvous, on a connection over TCP */
	KV_NO_MEMORY = -6,
	KV_LOST = -7,         /* the connection; whether the store has changed is not known */
	KV_UNREACHABLE = -8,  /* kv_open: no server there, or none that is trusted */
	KV_INVALID = -9       /* an argument that cannot be: a null pointer, an option that does not exist */
};

/* servername is "host[:port]" (port 7472 without it); several with commas, each of which has its share of the keys; or
 * "etcd://HOST:2379/PREFIX", whose members are the servers. Both ends must belong to one user, or show certificates of
 * one authority (VERBENA_CA, VERBENA_CERT, VERBENA_KEY), or both have been told to trust everybody (kv_open_with,
 * `insecure`). */
VERBENA_KV_API int kv_open(char* servername, void** kv_handle);
/* Both are strings. The key's present value is replaced. */
VERBENA_KV_API int kv_set(void* kv_handle, const char* key, const char* value);
/* *value is a string, to be given to kv_release(). A key that is missing has "". */
VERBENA_KV_API int kv_get(void* kv_handle, const char* key, char** value);
VERBENA_KV_API void kv_release(char* value);
/* Waits for asynchronous SETs. The handle is gone afterwards, whatever is returned. Values may be released later. */
VERBENA_KV_API int kv_close(void* kv_handle);

/* The same for keys and values of any bytes. A missing key is KV_MISSING. *value has a NUL behind its last byte, for
 * convenience. */
VERBENA_KV_API int kv_setn(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length);
VERBENA_KV_API int kv_getn(void* kv_handle, const void* key, size_t key_length, char** value, size_t* value_length);
VERBENA_KV_API int kv_delete(void* kv_handle, const char* key);
VERBENA_KV_API int kv_deleten(void* kv_handle, const void* key, size_t key_length);

/* Takes the SET and does not wait; key and value may be reused at once. It leaves, with others in one message, with the
 * next call on the handle that waits for a server, kv_flush() at the latest: whoever stops setting for a while calls
 * that. SETs of one key keep their order, and a kv_get of it comes after them. Waits only if very many are under way.
 * kv_flush() waits for all, and returns what went wrong first, if anything did. */
VERBENA_KV_API int kv_set_async(void* kv_handle, const char* key, const char* value);
VERBENA_KV_API int kv_setn_async(
	void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length);
VERBENA_KV_API int kv_flush(void* kv_handle);

/* Memory for values, registered with the adapter: a large value that begins there is not copied by kv_setn, nor is one
 * from kv_getn. NULL: there is none left. To be given to kv_release(). */
VERBENA_KV_API char* kv_alloc(void* kv_handle, size_t size);

/* What is NULL or 0 is as with kv_open. */
struct kv_options {
	size_t size; /* sizeof(struct kv_options) */
	int insecure; /* 1: authenticate nobody, encrypt nothing in the set-up */
	const char *ca, *certificate, *key; /* files */
	const char* transport; /* "rdma", "tcp" */
	const char* protocol; /* "auto", "eager", "rndv" */
	const char* rendezvous; /* of a SET: "read" (the server reads the value), "write" (it is written to the server) */
	size_t eager_max; /* key and value together below this go eagerly, in both directions */
	const char* device; /* RDMA device */
	int one_sided; /* 1: GET by RDMA READ alone what the server publishes (kv_server --one-sided) */
};
VERBENA_KV_API int kv_open_with(char* servername, const struct kv_options* options, void** kv_handle);

/* One sentence about the last call on this handle that failed, of whichever thread; with NULL, about the last kv_open
 * of this thread. Valid until this thread calls kv_last_error or kv_open again. */
VERBENA_KV_API const char* kv_last_error(void* kv_handle);
/* One sentence about a result. */
VERBENA_KV_API const char* kv_strerror(int result);

/* What this handle has done so far. */
struct kv_counters {
	unsigned long long operations;
	unsigned long long messages; /* of requests, answers and what else is said about them, both ways */
	unsigned long long eager, reads, writes, lent;
	unsigned long long copied; /* large values copied before they were sent */
	unsigned long long registrations; /* of memory with the adapter */
	unsigned long long one_sided; /* GETs by RDMA READ alone */
};
VERBENA_KV_API int kv_read_counters(void* kv_handle, struct kv_counters* counters);

#ifdef __cplusplus
}
#endif
#endif
