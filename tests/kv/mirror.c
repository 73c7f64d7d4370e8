// SPDX-License-Identifier: Apache-2.0
/* mirror SERVERS KEYS TRANSPORT: keeps the versions of the keys "m:0" to "m:KEYS-1" by events
 * alone. It looks at all of them after KV_EVENT_LOOK_AGAIN, and otherwise at the key of the event.
 * Prints "mirroring" after the first look. When standard input ends, it waits until its versions
 * are those of the servers, for 60 s at most, and prints "equal" and the numbers of events and of
 * looks; or it prints a key that differs, and ends with status 1. */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "expect.h"

static unsigned long long *mirror;
static int keys, events_seen, looks;

/* The version of a key; the server may be starting again. */
static unsigned long long version_of(void *store, int number)
{
	char key[32], *value;
	unsigned long long version;
	size_t length;
	snprintf(key, sizeof key, "m:%d", number);
	for (;;) {
		const int result = kv_get_version(store, key, strlen(key), &value, &length, &version);
		kv_release(value);
		if (result == KV_OK || result == KV_MISSING) return version;
		EXPECT(result == KV_LOST || result == KV_UNAVAILABLE || result == KV_TIMEOUT);
	}
}

static void take_events(void *store, struct kv_watcher *watcher, int timeout_ms)
{
	const struct kv_event *events;
	size_t count;
	EXPECT(kv_next_events(watcher, &events, &count, timeout_ms) == KV_OK);
	for (size_t i = 0; i < count; ++i) {
		if (events[i].kind != KV_EVENT_LOOK_AGAIN) {
			const int number = atoi(events[i].key + 2);
			EXPECT(strncmp(events[i].key, "m:", 2) == 0 && number < keys);
			mirror[number] = version_of(store, number);
			++events_seen;
			continue;
		}
		for (int number = 0; number < keys; ++number) mirror[number] = version_of(store, number);
		if (looks++ == 0) {
			puts("mirroring");
			fflush(stdout);
		}
	}
}

/* Returns the first key whose version differs, or -1. */
static int difference(void *store)
{
	for (int number = 0; number < keys; ++number)
		if (version_of(store, number) != mirror[number]) return number;
	return -1;
}

int main(int argc, char **argv)
{
	void *store = NULL;
	struct kv_watcher *watcher;
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char unused[64];
	if (argc != 4) return 2;
	const struct kv_options options = {.size = sizeof options, .transport = argv[3]};
	keys = atoi(argv[2]);
	mirror = calloc((size_t)keys, sizeof *mirror);
	EXPECT(kv_open_with(argv[1], &options, &store) == KV_OK);
	EXPECT(kv_watch(store, "m:", 2, KV_WATCH_PREFIX, &watcher) == KV_OK);
	while (poll(&input, 1, 0) == 0 || read(STDIN_FILENO, unused, sizeof unused) > 0) take_events(store, watcher, 10);

	const time_t end = time(NULL) + 60;
	int differs = difference(store);
	while (differs >= 0 && time(NULL) < end) {
		take_events(store, watcher, 10);
		differs = difference(store);
	}
	if (differs >= 0) printf("m:%d differs\n", differs);
	else printf("equal after %d events and %d looks\n", events_seen, looks);
	EXPECT(kv_close(store) == KV_OK);
	return differs >= 0;
}
