// SPDX-License-Identifier: Apache-2.0
/* WRITEs: when the source is read, and when the bytes are seen. */
#include "litmus.h"

#define SIDES const struct side *first, const struct side *second

static void nothing(struct side* s) { (void)s; }
static bool y_is_2(SIDES) { return (void)first, second->final[y] == 2; }
static bool y_is_0(SIDES) { return (void)first, second->final[y] == 0; }
/* The second process has seen what comes later, and then not what came before. */
static bool flag_without_data(SIDES) { return (void)first, second->r[0] == 0; }

static void put_overwrite(struct side* s) {
	store(s, x, 1);
	put(s, q, y, x, 0);
	store(s, x, 2);
}
static void put_poll_overwrite(struct side* s) {
	store(s, x, 1);
	put(s, q, y, x, 0);
	poll_sends(s, q);
	store(s, x, 2);
}
static void put_inline_overwrite(struct side* s) {
	store(s, x, 1);
	put(s, q, y, x, in_line);
	store(s, x, 2);
}
static void store_then_put(struct side* s) {
	store(s, x, 1);
	put(s, q, y, x, 0);
}

static void put_put(struct side* s) {
	put(s, q, d, one, 0);
	put(s, q, f, one, 0);
}
static void await_flag(struct side* s) {
	await(s, f);
	s->r[0] = load(s, d);
}

static void one_message(struct side* s) {
	s->memory->block[0] = s->memory->block[block_size - 1] = 1;
	put_block(s, q);
}
static void await_last_byte(struct side* s) {
	volatile unsigned char* const block = s->memory->block;
	while (block[block_size - 1] == 0) {}
	s->r[0] = block[0];
}

static void put_send(struct side* s) {
	put(s, q, d, one, 0);
	send_word(s, q, one, 0, 0);
}
static void put_with_imm(struct side* s) { put_imm(s, q, d, one); }
static void receive(struct side* s) {
	poll_receive(s, q);
	s->r[0] = load(s, d);
}

static void two_queues(struct side* s) {
	put(s, q, d, one, 0);
	send_word(s, q2, one, 0, 0);
}
static void put_poll_other_queue(struct side* s) {
	put(s, q, d, one, 0);
	poll_sends(s, q);
	send_word(s, q2, one, 0, 0);
}
static void put_get_poll_other_queue(struct side* s) {
	put(s, q, d, one, 0);
	get(s, q, z, d, 0);
	poll_sends(s, q);
	send_word(s, q2, one, 0, 0);
}
static void receive_there(struct side* s) {
	poll_receive(s, q2);
	s->r[0] = load(s, d);
}

static void put_get(struct side* s) {
	put(s, q, y, one, 0);
	get(s, q, z, y, 0);
	poll_sends(s, q);
	s->r[0] = load(s, z);
}
static bool read_before_write(SIDES) { return (void)second, first->r[0] == 0; }

/* Both write to the other one, wait for the completion, and look at their own memory. */
static void cross_first(struct side* s) {
	put(s, q, f, one, 0);
	poll_sends(s, q);
	s->r[0] = load(s, x);
}
static void cross_second(struct side* s) {
	put(s, q, x, one, 0);
	poll_sends(s, q);
	s->r[0] = load(s, f);
}
static bool both_miss(SIDES) { return first->r[0] == 0 && second->r[0] == 0; }

const struct test writes[] = {
	{"L1", put_overwrite, nothing, y_is_2, 0, {0}, 0},
	{"L2", put_poll_overwrite, nothing, y_is_2, 0, {0}, 0},
	{"L3", put_inline_overwrite, nothing, y_is_2, 0, {0}, 0},
	{"L4", store_then_put, nothing, y_is_0, 0, {0}, 0},
	{"L7", put_put, await_flag, flag_without_data, 0, {0}, 0},
	{"L8", one_message, await_last_byte, flag_without_data, 0, {0}, 0},
	{"L9", put_send, receive, flag_without_data, 0, {[q] = 1}, 0},
	{"L10", put_with_imm, receive, flag_without_data, 0, {[q] = 1}, 0},
	{"L11", two_queues, receive_there, flag_without_data, 0, {[q2] = 1}, 0},
	{"L12", put_poll_other_queue, receive_there, flag_without_data, 0, {[q2] = 1}, 0},
	{"L13", put_get_poll_other_queue, receive_there, flag_without_data, 0, {[q2] = 1}, 0},
	{"L14", put_get, nothing, read_before_write, 0, {0}, 0},
	{"L29", cross_first, cross_second, both_miss, 0, {0}, 0},
	{0},
};
