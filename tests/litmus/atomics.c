// SPDX-License-Identifier: Apache-2.0
/* Remote atomics: with each other, with the processor, and with WRITEs. */
#include "litmus.h"

#define SIDES const struct side *first, const struct side *second

enum { times = 8 };
static void nothing(struct side* s) { (void)s; }

static void add_on_both_queues(struct side* s) {
	for (int i = 0; i < times; i++) {
		fetch_add(s, q, y, 1);
		fetch_add(s, q2, y, 1);
	}
}
static void add(struct side* s) {
	for (int i = 0; i < times; i++) fetch_add(s, q, y, 1);
}
static void add_here(struct side* s) {
	for (int i = 0; i < times; i++) {
		__atomic_fetch_add(&s->memory->word[y].value, 1, __ATOMIC_SEQ_CST);
		dawdle(s);
	}
}
static bool one_is_lost(SIDES) { return (void)first, second->final[y] < 2 * times; }

static void add_once(struct side* s) { fetch_add(s, q, y, 1); }
static void store_ten(struct side* s) {
	dawdle(s);
	store(s, y, 10);
}
static void add_and_put(struct side* s) {
	fetch_add(s, q, y, 1);
	put(s, q2, y, ten, 0);
}
static bool ten_is_lost(SIDES) { return (void)first, second->final[y] == 1; }

static void put_then_add(struct side* s) {
	put(s, q, d, one, 0);
	fetch_add(s, q, f, 1);
}
static void await_flag(struct side* s) {
	await(s, f);
	s->r[0] = load(s, d);
}
static bool flag_without_data(SIDES) { return (void)first, second->r[0] == 0; }

/* The lock is taken at first. q writes data and frees it, q2 takes it and reads the data. */
static void lock_is_taken(struct side* s) { store(s, lock, 1); }
static void unlock(struct side* s) {
	put(s, q, d, one, 0);
	put(s, q, lock, scratch, 0);  /* scratch is 0 */
	do {
		compare_swap(s, q2, a, lock, 0, 2);
		poll_sends(s, q2);
	} while (load(s, a) != 0);
	get(s, q2, b, d, 0);
	poll_sends(s, q2);
	s->r[0] = load(s, b);
}
static bool locked_without_data(SIDES) { return (void)second, first->r[0] == 0; }

/* Regression: the response of a compare that failed was held back for ever. */
static void compare_in_vain(struct side* s) {
	compare_swap(s, q, a, y, 5, 1);
	poll_sends(s, q);
}
static bool swapped(SIDES) { return (void)first, second->final[y] == 1; }

const struct test atomics[] = {
	{"L22", add_on_both_queues, nothing, one_is_lost, 0, {0}, 0},
	{"L22-miss", compare_in_vain, nothing, swapped, 0, {0}, 0},
	{"L23", add, add_here, one_is_lost, 0, {0}, 0},
	{"L24", add_once, store_ten, ten_is_lost, 0, {0}, 0},
	{"L25", add_and_put, nothing, ten_is_lost, 0, {0}, 0},
	{"L26", put_then_add, await_flag, flag_without_data, 0, {0}, 0},
	{"L27", unlock, nothing, locked_without_data, lock_is_taken, {0}, 0},
	{0},
};
