// SPDX-License-Identifier: Apache-2.0
/* watch SERVER TRANSPORT: kv_watch(), kv_next_events() and kv_unwatch(), also with invalid
 * arguments. The server is empty. Prints "all good", or the expectation that failed and ends with
 * status 1. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <string.h>

#include "expect.h"

enum { WATCHERS_MAX = 256, WAITING_MAX = 4096 };

static struct kv_watcher *watch(void *store, const char *text, unsigned flags)
{
	struct kv_watcher *watcher;
	EXPECT(kv_watch(store, text, strlen(text), flags, &watcher) == KV_OK && watcher != NULL);
	return watcher;
}

/* The next event, which comes alone. */
static struct kv_event next(void *store, struct kv_watcher *watcher)
{
	const struct kv_event *events;
	size_t count;
	EXPECT(kv_next_events(watcher, &events, &count, 10000) == KV_OK && count == 1);
	EXPECT(strlen(events[0].key) == events[0].key_length);
	return events[0];
}

static void expect_nothing(void *store, struct kv_watcher *watcher)
{
	const struct kv_event *events;
	size_t count = 1;
	EXPECT(kv_next_events(watcher, &events, &count, 0) == KV_OK && count == 0);
}

static void each_kind_of_change_has_an_event(void *store)
{
	unsigned long long version = 0;
	struct kv_watcher *key = watch(store, "user:1", 0);
	struct kv_watcher *prefix = watch(store, "user:", KV_WATCH_PREFIX);
	struct kv_event event = next(store, key);
	EXPECT(event.kind == KV_EVENT_LOOK_AGAIN && event.key_length == 0 && event.version == 0);
	EXPECT(next(store, prefix).kind == KV_EVENT_LOOK_AGAIN);
	EXPECT(kv_set(store, "user:2", "not watched by the first one") == KV_OK);
	EXPECT(kv_cas(store, "user:1", 6, "value", 5, &version) == KV_OK);
	event = next(store, key);
	EXPECT(event.kind == KV_EVENT_SET && strcmp(event.key, "user:1") == 0 && event.version == version);
	EXPECT(kv_del_if(store, "user:1", 6, &version) == KV_OK);
	event = next(store, key);
	EXPECT(event.kind == KV_EVENT_DELETED && strcmp(event.key, "user:1") == 0 && event.version == version);
	struct kv_op brief = {.size = sizeof brief, .kind = KV_OP_SET, .key = "user:1", .key_length = 6, .ttl_ms = 1};
	EXPECT(kv_do(store, &brief, 1) == KV_OK);
	EXPECT(next(store, key).kind == KV_EVENT_SET);
	EXPECT(next(store, key).kind == KV_EVENT_EXPIRED);
	expect_nothing(store, key);

	/* The other one has them all, and one more. They have waited. */
	const int kinds[] = {KV_EVENT_SET, KV_EVENT_SET, KV_EVENT_DELETED, KV_EVENT_SET, KV_EVENT_EXPIRED};
	const struct kv_event *events;
	size_t count, seen = 0;
	while (seen < sizeof kinds / sizeof *kinds) {
		EXPECT(kv_next_events(prefix, &events, &count, 10000) == KV_OK && count > 0);
		for (size_t i = 0; i < count; ++i) EXPECT(events[i].kind == kinds[seen++]);
	}
	EXPECT(kv_unwatch(key) == KV_OK);
	EXPECT(kv_set(store, "user:1", "") == KV_OK);
	EXPECT(next(store, prefix).kind == KV_EVENT_SET);
	EXPECT(kv_unwatch(prefix) == KV_OK);
}

static void the_descriptor_is_readable_while_events_wait(void *store)
{
	struct pollfd descriptor = {.fd = kv_fd(store), .events = POLLIN};
	struct kv_op *done;
	struct kv_watcher *watcher = watch(store, "", KV_WATCH_PREFIX);
	EXPECT(next(store, watcher).kind == KV_EVENT_LOOK_AGAIN);
	for (int i = 0; i < 100; ++i) {
		EXPECT(kv_set(store, "key", "value") == KV_OK);
		const struct kv_event *events;
		size_t count = 0;
		while (count == 0) {
			EXPECT(poll(&descriptor, 1, 10000) == 1);
			EXPECT(kv_wait(store, &done, 1, 0, 0) == 0);
			EXPECT(kv_next_events(watcher, &events, &count, 0) == KV_OK);
		}
		EXPECT(count == 1 && events[0].kind == KV_EVENT_SET);
	}
	EXPECT(kv_unwatch(watcher) == KV_OK);
}

/* Events arrive during all calls of the handle, so a program that does not take them loses some. */
static void a_program_that_takes_no_events_looks_again(void *store)
{
	struct kv_watcher *watcher = watch(store, "many", KV_WATCH_PREFIX);
	const struct kv_event *events;
	size_t count;
	EXPECT(next(store, watcher).kind == KV_EVENT_LOOK_AGAIN);
	for (int i = 0; i < 2 * WAITING_MAX; ++i) EXPECT(kv_set(store, "many", "value") == KV_OK);
	EXPECT(kv_next_events(watcher, &events, &count, 10000) == KV_OK && count <= WAITING_MAX);
	EXPECT(events[0].kind == KV_EVENT_LOOK_AGAIN);
	EXPECT(kv_unwatch(watcher) == KV_OK);
}

static void wrong_arguments_are_refused(void *store)
{
	static char longest[4097];
	static struct kv_watcher *all[WATCHERS_MAX];
	struct kv_watcher *watcher = NULL;
	const struct kv_event *events;
	size_t count;
	memset(longest, 'k', sizeof longest);
	EXPECT(kv_watch(NULL, "key", 3, 0, &watcher) == KV_INVALID);
	EXPECT(kv_watch(store, "key", 3, 0, NULL) == KV_INVALID);
	EXPECT(kv_watch(store, NULL, 3, 0, &watcher) == KV_INVALID);
	EXPECT(kv_watch(store, "key", 3, 2, &watcher) == KV_INVALID);
	EXPECT(kv_watch(store, "", 0, 0, &watcher) == KV_EMPTY_KEY);
	EXPECT(kv_watch(store, longest, sizeof longest, 0, &watcher) == KV_LONG_KEY);
	EXPECT(kv_watch(store, longest, sizeof longest, KV_WATCH_PREFIX, &watcher) == KV_LONG_KEY);
	EXPECT(watcher == NULL && strstr(kv_last_error(store), "too long") != NULL);
	EXPECT(kv_next_events(NULL, &events, &count, 0) == KV_INVALID && kv_unwatch(NULL) == KV_INVALID);
	for (int i = 0; i < WATCHERS_MAX; ++i) all[i] = watch(store, "k", KV_WATCH_PREFIX);
	EXPECT(kv_watch(store, "key", 3, 0, &watcher) == KV_INVALID);
	EXPECT(strstr(kv_last_error(store), "256") != NULL);
	EXPECT(kv_next_events(all[0], NULL, &count, 0) == KV_INVALID);
	EXPECT(kv_next_events(all[0], &events, NULL, 0) == KV_INVALID);
	EXPECT(kv_unwatch(all[0]) == KV_OK);
	EXPECT(kv_watch(store, longest, 4096, 0, &watcher) == KV_OK);
	EXPECT(next(store, watcher).kind == KV_EVENT_LOOK_AGAIN);
	/* kv_close() ends the others. */
}

int main(int argc, char **argv)
{
	void *store = NULL;
	if (argc != 3) return 2;
	const struct kv_options options = {.size = sizeof options, .transport = argv[2]};
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	each_kind_of_change_has_an_event(store);
	a_program_that_takes_no_events_looks_again(store);
	the_descriptor_is_readable_while_events_wait(store);
	wrong_arguments_are_refused(store);
	EXPECT(kv_close(store) == KV_OK);
	puts("all good");
	return 0;
}
