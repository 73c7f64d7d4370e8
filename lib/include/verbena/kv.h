// SPDX-License-Identifier: Apache-2.0
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
 * A handle is one connection to each server, or one for each lane. Keys have 1 to 4096 bytes,
 * values 0 B to 64 MiB.
 * Link with `pkg-config --cflags --libs verbena-kv`. docs/kv.md states what the store guarantees.
 *
 * Threads: any thread may use a handle. Calls run one at a time, or with kv_options.lanes, one at a
 *   time in each lane; kv_close() is the last call. Operations make progress only inside calls. The
 *   library starts a thread of its own only for an etcd prefix, to watch its members (one for each
 *   lane). Do not use a handle after fork(); the child opens its own.
 * Owns: the caller owns each value that it gets, until it calls kv_release(); a value may outlive
 *   its handle. It does not survive fork(): the child must neither read nor release it, because the
 *   memory of large values is not inherited. Copy what the child needs before.
 * Errors: a call returns KV_OK or another code of enum kv_result; kv_last_error() has the details.
 *   When a call that sets or deletes a value returns KV_OK, the server has acknowledged the change,
 *   unless the name of the call ends in _async. Each call has a deadline (kv_options.timeout_ms,
 *   10 s) and waits for no other server than that of its key. When a connection is lost, the
 *   library connects again and sends what has no answer again; the server makes each change once.
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
	KV_MISSING = 1,       /* the key does not exist (kv_getn, kv_delete, kv_deleten) */
	KV_CHANGED = 2,       /* the key has another version than expected (kv_cas, kv_del_if) */
	KV_EMPTY_KEY = -1,
	KV_LONG_KEY = -2,     /* more than 4096 bytes */
	KV_LONG_VALUE = -3,   /* more than 64 MiB, or more than the server accepts */
	KV_FULL = -4,         /* the store has reached its memory limit; nothing changed */
	KV_UNSUPPORTED = -5,  /* rendezvous was requested on a connection over TCP */
	KV_NO_MEMORY = -6,    /* this process has no memory left for the value */
	/* The connection ended, and the change was not sent again: the server has lost its content or
	 * has left its etcd prefix, or no_retry is set. Whether the store has changed is unknown. */
	KV_LOST = -7,
	KV_UNREACHABLE = -8,  /* kv_open: no connection to a server that this client trusts */
	KV_INVALID = -9,      /* an invalid argument, such as a null pointer or an unknown option */
	/* The deadline passed without a server. Nothing has changed, and nothing will. */
	KV_UNAVAILABLE = -10,
	/* The deadline passed without an answer. A change may have been made, or may yet be, once at
	 * most. */
	KV_TIMEOUT = -11,
	/* The server could not write the change to its disk, which is full or fails. Nothing has
	 * changed. */
	KV_DISK = -12
};

/* Connects to the server or servers that `servername` names:
 *   "host[:port]"               one server; the port is 7472 if it is missing;
 *   "host[:port],host[:port]"   several servers, each of which has its share of the keys;
 *   "etcd://HOST:2379/PREFIX"   the servers that are members of this etcd prefix: a cache, in
 *                               which keys may be missing after a server has joined or left, and
 *                               never have an older value;
 *   "etcds://HOST:2379,HOST:2379/PREFIX"   the same by TLS and by several members of etcd
 *                               (kv_options.etcd_ca and those after it).
 * Both ends must belong to one user, or have certificates of one authority (VERBENA_CA,
 * VERBENA_CERT, VERBENA_KEY), or both must trust every peer (kv_open_with(), `insecure`).
 * Returns when one of the servers is connected, and waits 10 s at most for that. */
VERBENA_KV_API int kv_open(const char* servername, void** kv_handle);
/* Stores a value; it replaces the key's present one. Key and value are strings. */
VERBENA_KV_API int kv_set(void* kv_handle, const char* key, const char* value);
/* Fetches a value as a string, which the caller passes to kv_release(), but not in a child of
 * fork(). A missing key yields "". */
VERBENA_KV_API int kv_get(void* kv_handle, const char* key, char** value);
/* Frees a value of kv_get(), kv_getn() or kv_alloc(), or keys of kv_scan(). NULL is allowed. Any
 * other pointer, or a second release, aborts the process; so may the release of a value of the
 * parent in a child of fork(). */
VERBENA_KV_API void kv_release(char* value);
/* Waits for asynchronous SETs and for all ops of kv_submit(), which then have their results, and
 * closes the connections. The handle is invalid afterwards, also after an error. The result is that
 * of kv_flush(). */
VERBENA_KV_API int kv_close(void* kv_handle);

/* These calls take keys and values as bytes with a length (kv_delete() takes a string). For a
 * missing key, kv_getn(), kv_delete() and kv_deleten() return KV_MISSING, and kv_getn() sets *value
 * to NULL. Otherwise kv_getn() puts a NUL behind the last byte of *value, which *value_length does
 * not count. */
VERBENA_KV_API int kv_setn(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length);
VERBENA_KV_API int kv_getn(void* kv_handle, const void* key, size_t key_length, char** value, size_t* value_length);
VERBENA_KV_API int kv_delete(void* kv_handle, const char* key);
VERBENA_KV_API int kv_deleten(void* kv_handle, const void* key, size_t key_length);

/* Versions. Each change gives its key a version that is greater than every earlier one, also after
 * a DEL. A missing key has the version 0.
 *
 * kv_get_version() is kv_getn(), and sets *version. With one_sided it asks by message.
 *
 * kv_cas() stores the value, and kv_del_if() deletes the key, only if the key has the version
 * *version. With 0, kv_cas() stores the value only if the key is missing. When they return KV_OK,
 * *version is that of the change. It is 0 only if the library had to send the request again to a
 * server of an earlier version, which had made the change at the first time. When they return
 * KV_CHANGED, nothing has changed, and *version is the present version. */
VERBENA_KV_API int kv_get_version(void* kv_handle, const void* key, size_t key_length, char** value,
	size_t* value_length, unsigned long long* version);
VERBENA_KV_API int kv_cas(void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length,
	unsigned long long* version);
VERBENA_KV_API int kv_del_if(void* kv_handle, const void* key, size_t key_length, unsigned long long* version);

/* Queues a SET and returns without waiting for the server; the caller may reuse key and value at
 * once. Queued SETs leave together, with the next call on the handle that waits for a server. A
 * program that pauses therefore calls kv_flush(). SETs of one key keep their order, and a kv_get()
 * of that key sees them. The call blocks while 1024 SETs of the key's server, or 256 MiB of their
 * values, are under way. */
VERBENA_KV_API int kv_set_async(void* kv_handle, const char* key, const char* value);
VERBENA_KV_API int kv_setn_async(
	void* kv_handle, const void* key, size_t key_length, const void* value, size_t value_length);
/* Waits for all asynchronous SETs. Returns the error of the first one that failed since the last
 * kv_flush(), or KV_OK. */
VERBENA_KV_API int kv_flush(void* kv_handle);

/* Many operations at once, and operations that do not block.
 *
 * A program fills in an array of struct kv_op and submits it. kv_wait() returns pointers to the ops
 * that are done, in any order, with their results. An op, its key and the value of a SET must stay
 * as they are from kv_submit() until kv_wait() has returned the op. Ops that are under way together
 * have no order among themselves, also ops of one key; and any of them may fail alone. */
enum kv_kind { KV_OP_GET = 1, KV_OP_SET = 2, KV_OP_DEL = 3, KV_OP_SCAN = 4 };
enum kv_op_flag {
	/* A GET sets `version`, and is never one-sided. A SET or DEL is made only if the key has
	 * `version`, and sets it, as kv_cas() and kv_del_if() do. */
	KV_OP_VERSION = 1
};

/* The place of a walk over all keys (kv_scan()). It is a value: a copy of it continues from the
 * same place, also with another handle for the same servers. All bytes 0: the begin. */
struct kv_cursor {
	unsigned long long server, walk, position; /* the library sets them */
	int done; /* 1: every key has come */
	int reserved;
};

/* Set `size`; a member that is not used is 0. Later versions add members at the end; a program that
 * was built with an earlier version keeps working. All ops of one array have one size. */
struct kv_op {
	size_t size; /* sizeof(struct kv_op) */
	int kind;    /* a value of enum kv_kind */
	unsigned flags; /* values of enum kv_op_flag */
	const void* key;
	size_t key_length;
	/* A SET's value, which does not change. A GET sets it, as kv_getn() does: the caller passes it
	 * to kv_release(). It is NULL, and the length 0, if the GET's result is not KV_OK. */
	char* value;
	size_t value_length;
	unsigned long long version;
	/* A SET's time to live in milliseconds, from its execution at the server on; then the key is
	 * missing. 0: until it is changed; and for the other kinds. */
	unsigned ttl_ms;
	int result; /* a value of enum kv_result, once the op is done */
	void* user; /* not used by the library */
	/* A SCAN fetches the page behind this cursor, as kv_scan() does, and moves it. The key is the
	 * prefix, which may be empty; `value` becomes the array of struct kv_key, which the caller
	 * passes to kv_release(), and `value_length` the number of keys. NULL for the other kinds. */
	struct kv_cursor* cursor;
};

/* Begins the operations ops[0] to ops[n - 1], and returns how many it has taken: fewer than n if
 * 4096 are then under way. Call kv_wait(), and submit the others. Several ops leave at once. A
 * single one leaves with the next call on the handle, such as kv_wait(), so that ops which are
 * submitted one by one leave together. An op that is no operation (an unknown kind, no key) is
 * taken, and its result is KV_INVALID. The call does not wait for a server, except for an
 * asynchronous SET of the same key (kv_setn_async()). Returns KV_INVALID, and takes none, if `ops`
 * is NULL or a size is wrong. */
VERBENA_KV_API int kv_submit(void* kv_handle, struct kv_op* ops, int n);
/* Stores pointers to at most `max` ops that are done in `done`, and returns their number. Waits
 * until `min` are done (at most `max`, and at most those that are under way), or until timeout_ms
 * has passed; 0: does not wait; negative: no limit, but each op has the deadline of the handle.
 * Returns KV_INVALID for a number below 0. */
VERBENA_KV_API int kv_wait(void* kv_handle, struct kv_op** done, int max, int min, int timeout_ms);
/* Returns a descriptor for poll(), epoll or an event loop. From then on it is readable whenever
 * kv_wait() or kv_next_events() may have something to do; it stays so until kv_wait(handle, done,
 * max, 0, 0) is called and each watcher has given its events (level-triggered). It may be readable
 * for nothing. The program only polls it; it belongs to the handle, until kv_close(). Returns
 * KV_NO_MEMORY if the process has no descriptor left. */
VERBENA_KV_API int kv_fd(void* kv_handle);
/* Does n ops at once and waits for all; kv_wait() does not return them. Returns KV_OK if all
 * results are KV_OK or KV_MISSING; otherwise the result of one that failed, about which
 * kv_last_error() has the details, or KV_INVALID as kv_submit(). */
VERBENA_KV_API int kv_do(void* kv_handle, struct kv_op* ops, int n);
/* kv_do() of n GETs. It sets `kind` itself. */
VERBENA_KV_API int kv_mget(void* kv_handle, struct kv_op* ops, int n);

/* The keys of all servers, page by page:
 *
 *     struct kv_cursor at = {0};
 *     struct kv_key *keys;
 *     size_t count;
 *     do {
 *         if (kv_scan(store, &at, "user:", 5, 0, &keys, &count) != KV_OK) break;
 *         for (size_t i = 0; i < count; ++i) puts(keys[i].key);
 *         kv_release((char *)keys);
 *     } while (!at.done);
 *
 * A key that is there from the first call to the last one comes at least once, whatever is changed
 * meanwhile; it may come more than once. A key that is set or deleted meanwhile may come or not.
 * The order is that of hashes. A server looks at a bounded part of its table for each page, so
 * pages may be empty before the walk is done.
 *
 * kv_op with KV_OP_SCAN fetches a page without blocking. */
struct kv_key {
	const char* key; /* a NUL follows the last byte */
	size_t key_length;
};
/* Fetches the next page: about `keys_max` keys at most (0: 1000), which begin with the prefix
 * (`prefix_length` 0: any keys). *keys is an array of *count keys, which the caller passes to
 * kv_release(); it is NULL if there are none. After an error the cursor has not changed, and *keys
 * is NULL: KV_UNSUPPORTED if the server is too old, KV_UNAVAILABLE, KV_TIMEOUT. Returns KV_INVALID
 * for a cursor that is done. */
VERBENA_KV_API int kv_scan(void* kv_handle, struct kv_cursor* cursor, const void* prefix, size_t prefix_length,
	size_t keys_max, struct kv_key** keys, size_t* count);

/* Events: what happens to a key, or to all keys that begin with a prefix.
 *
 *     struct kv_watcher *watcher;
 *     const struct kv_event *events;
 *     size_t count;
 *     kv_watch(store, "user:", 5, KV_WATCH_PREFIX, &watcher);
 *     while (kv_next_events(watcher, &events, &count, -1) == KV_OK)
 *         for (size_t i = 0; i < count; ++i)
 *             if (events[i].kind == KV_EVENT_LOOK_AGAIN) ... (kv_scan() and kv_getn() the keys)
 *             else ... (kv_getn() events[i].key)
 *
 * Each change of a key has one event once it is visible, also the changes of this handle. The
 * events of one key come in the order of their versions. They have no values: a GET returns the
 * version of the event or a later one.
 *
 * KV_EVENT_LOOK_AGAIN comes first, from each server; again after a connection was lost or the
 * members of an etcd prefix have changed; and in place of events that were dropped, because the
 * program did not take them in time. The program then looks at the keys itself; changes that it
 * does not see so have events after this one. */
enum kv_event_kind {
	KV_EVENT_SET = 1,
	KV_EVENT_DELETED = 2,
	KV_EVENT_EXPIRED = 3, /* the time to live is over */
	/* The server has taken it out: kv_server --evict, or its slot belongs to another member. */
	KV_EVENT_EVICTED = 4,
	KV_EVENT_LOOK_AGAIN = 5 /* no key, and the version 0 */
};
struct kv_event {
	int kind; /* a value of enum kv_event_kind; later versions may have more */
	int reserved;
	const char* key; /* a NUL follows the last byte */
	size_t key_length;
	/* That of the change or, for KV_EVENT_EVICTED, that which the key had. */
	unsigned long long version;
};
enum kv_watch_flag { KV_WATCH_PREFIX = 1 /* all keys that begin with `key`, which may be empty */ };
struct kv_watcher;
/* Begins to watch. It does not wait for a server; one that is not connected yet sends its events
 * from then on. A lane has at most 256 watchers. Returns KV_INVALID for more or for an unknown
 * flag, and otherwise KV_EMPTY_KEY or KV_LONG_KEY. */
VERBENA_KV_API int kv_watch(
	void* kv_handle, const void* key, size_t key_length, unsigned flags, struct kv_watcher** watcher);
/* Sets *events to an array of the *count events that have come, and are valid until the next call
 * for this watcher. One thread at a time may use a watcher. Waits until there is one, or until
 * timeout_ms has passed (then *count is 0); 0: does not wait; negative: no limit. Up to 4096 events
 * wait for this call. They arrive during calls of the handle; kv_fd() is readable when one may have
 * come. Returns KV_UNSUPPORTED if a server is too old, and KV_FULL if one has no memory left for
 * the watch, also in each later call. */
VERBENA_KV_API int kv_next_events(
	struct kv_watcher* watcher, const struct kv_event** events, size_t* count, int timeout_ms);
/* Ends the watching, and frees the watcher and its events, as kv_close() does. */
VERBENA_KV_API int kv_unwatch(struct kv_watcher* watcher);

/* Returns memory for one value of up to `size` bytes (64 MiB at most), or NULL if none is left; the
 * caller passes it to kv_release(). Over RDMA the memory is registered, so kv_setn() of a large
 * value that begins there copies nothing. The same holds for large values from kv_getn(). */
VERBENA_KV_API char* kv_alloc(void* kv_handle, size_t size);

/* A member that is NULL or 0 means its default, except `size`, which must be set. Later versions
 * add members at the end; a program that was built with an earlier version keeps working. */
struct kv_options {
	size_t size; /* sizeof(struct kv_options) */
	int insecure; /* 1: authenticate no peer, and do not encrypt the set-up */
	const char *ca, *certificate, *key; /* names of PEM files */
	const char* transport; /* "rdma" (default), "tcp" */
	const char* protocol; /* "auto" (default), "eager", "rndv" */
	/* The form of a SET by rendezvous: "read" (default), the server reads the value by RDMA READ;
	 * "write", the client writes it to the server by RDMA WRITE. */
	const char* rendezvous;
	/* A key and value of fewer bytes together travel eagerly, both ways; 0: the server's limit. */
	size_t eager_max;
	const char* device; /* name of the RDMA device; the default is the best one */
	/* 1: GETs read published values by RDMA READ alone; needs kv_server --one-sided. */
	int one_sided;
	/* The deadline of each call, in milliseconds; 0: 10,000; negative: none. */
	int timeout_ms;
	/* 1: an operation is sent once, and fails with KV_LOST when its connection is lost. */
	int no_retry;
	/* The number of threads that do not wait for each other: 1 (default) to 64. Each lane has
	 * connections and memory of its own. A thread keeps to one lane: that which had the fewest
	 * threads when it first used the handle. kv_wait(), kv_fd(), kv_flush() and kv_last_error() are
	 * about that lane alone. */
	size_t lanes;
	/* For "etcds://": the PEM file of the authority of etcd's certificate (default: those of the
	 * system), the certificate and key to show to etcd, and a user of etcd with the file of the
	 * password. No other user may read the key and the password. VERBENA_ETCD_CA, _CERT, _KEY,
	 * _USER and _PASSWORD_FILE stand in for those that are NULL. */
	const char *etcd_ca, *etcd_certificate, *etcd_key, *etcd_user, *etcd_password_file;
};
/* kv_open() with options. `options` may be NULL. */
VERBENA_KV_API int kv_open_with(const char* servername, const struct kv_options* options, void** kv_handle);

/* One sentence about the last call on this handle that failed, in any thread; with NULL, about this
 * thread's last kv_open() or call without a handle. Valid until this thread calls kv_last_error()
 * or kv_open() again. */
VERBENA_KV_API const char* kv_last_error(void* kv_handle);
/* One sentence about a result code; a constant. */
VERBENA_KV_API const char* kv_strerror(int result);

/* Totals of this handle since kv_open(). Later versions add members at the end. */
struct kv_counters {
	size_t size; /* sizeof(struct kv_counters), set by the caller */
	unsigned long long operations; /* SET, GET and DEL */
	unsigned long long messages; /* records sent and received: requests, answers, releases */
	/* Requests that are complete in one message: GETs by message, DELs, eager SETs. */
	unsigned long long eager;
	unsigned long long reads;  /* GETs whose value this client read by RDMA READ, under a lease */
	unsigned long long writes; /* SETs whose value this client wrote by RDMA WRITE, under a lease */
	unsigned long long leased;   /* SETs for whose value the server got a lease */
	unsigned long long copied; /* SETs by rendezvous whose value had to be copied first */
	unsigned long long registrations; /* memory registrations with the adapter (ibv_reg_mr) */
	unsigned long long one_sided; /* GETs by RDMA READ alone, without a message */
	unsigned long long connects; /* connections made */
	unsigned long long retries; /* operations that waited for a new connection or a busy server */
};
/* Fills in the first `counters->size` bytes of *counters. Members that this version of the library
 * does not know become 0. */
VERBENA_KV_API int kv_read_counters(void* kv_handle, struct kv_counters* counters);

#ifdef __cplusplus
}
#endif
#endif
