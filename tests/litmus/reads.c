// SPDX-License-Identifier: Apache-2.0
/* READs: when the data are fetched, and what may overtake them. */
#include "litmus.h"

#define SIDES const struct side *first, const struct side *second

static void nothing(struct side* s) { (void)s; }
static void y_is_1(struct side* s) { store(s, y, 1); }
static bool r0_is_0(SIDES) { return (void)second, first->r[0] == 0; }
static bool r0_is_1(SIDES) { return (void)second, first->r[0] == 1; }
static bool r0_is_2(SIDES) { return (void)second, first->r[0] == 2; }
static bool f_is_0(SIDES) { return (void)first, second->final[f] == 0; }

static void get_no_poll(struct side* s) {
	get(s, q, z, y, 0);
	s->r[0] = load(s, z);
}
static void get_poll(struct side* s) {
	get(s, q, z, y, 0);
	poll_sends(s, q);
	s->r[0] = load(s, z);
}

static void get_then_put(struct side* s, int flags) {
	get(s, q, z, y, 0);
	put(s, q, y, one, flags);
	poll_sends(s, q);
	s->r[0] = load(s, z);
}
static void get_put(struct side* s) { get_then_put(s, 0); }
static void get_put_fence(struct side* s) { get_then_put(s, fence); }

static void forward(struct side* s) {
	get(s, q, z, y, 0);
	put(s, q, f, z, 0);
}
static void forward_fence(struct side* s) {
	get(s, q, z, y, 0);
	put(s, q, f, z, fence);
}

static void get_then_send(struct side* s, int flags) {
	get(s, q, z, y, 0);
	send_word(s, q, one, 0, flags);
	poll_sends(s, q);
	s->r[0] = load(s, z);
}
static void get_send(struct side* s) { get_then_send(s, 0); }
static void get_send_fence(struct side* s) { get_then_send(s, fence); }
static void overwrite_after_message(struct side* s) {
	poll_receive(s, q);
	store(s, y, 2);
}

/* Data and then its number, again and again, until the first process has read. */
static void data_then_flag(struct side* s) {
	for (uint64_t n = 1; load(s, lock) == 0; n++) {
		store(s, d, n);
		store(s, f, n);
	}
}
static bool flag_without_data(SIDES) { return (void)second, first->r[0] > first->r[1]; }
static void get_get(struct side* s) {
	get(s, q, a, f, 0);
	get(s, q, b, d, 0);
	poll_sends(s, q);
	s->r[0] = load(s, a);
	s->r[1] = load(s, b);
	put(s, q, lock, one, 0);
}
/* d and f lie in adjacent lines. */
static void get_both(struct side* s) {
	get_two(s, q, a, d);
	poll_sends(s, q);
	s->r[1] = load(s, a);
	s->r[0] = load(s, b);
	put(s, q, lock, one, 0);
}

static void store_all_ones(struct side* s) {
	dawdle(s);
	store(s, y, ~(uint64_t)0);
}
static bool torn(SIDES) { return (void)second, first->r[0] != 0 && first->r[0] != ~(uint64_t)0; }

const struct test reads[] = {
	{"L5", get_no_poll, nothing, r0_is_0, y_is_1, {0}, 0},
	{"L6", get_poll, nothing, r0_is_0, y_is_1, {0}, 0},
	{"L15", get_put, nothing, r0_is_1, 0, {0}, 0},
	{"L16", get_put_fence, nothing, r0_is_1, 0, {0}, 0},
	{"L17", forward, nothing, f_is_0, y_is_1, {0}, 0},
	{"L17-fence", forward_fence, nothing, f_is_0, y_is_1, {0}, 0},
	{"L18", get_send, overwrite_after_message, r0_is_2, 0, {[q] = 1}, 0},
	{"L18-fence", get_send_fence, overwrite_after_message, r0_is_2, 0, {[q] = 1}, 0},
	{"L19", get_get, data_then_flag, flag_without_data, 0, {0}, 0},
	{"L20", get_both, data_then_flag, flag_without_data, 0, {0}, 0},
	{"L21", get_poll, store_all_ones, torn, 0, {0}, 0},
	{0},
};
