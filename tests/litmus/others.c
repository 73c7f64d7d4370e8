// SPDX-License-Identifier: Apache-2.0
/* Messages, events, registrations, and the unreliable services. */
#include <poll.h>

#include "litmus.h"

#define SIDES const struct side *first, const struct side *second

static void nothing(struct side* s) { (void)s; }
static bool r0_is_0(SIDES) { return (void)first, second->r[0] == 0; }
static bool r0_is_2(SIDES) { return (void)first, second->r[0] == 2; }

/* The messages of the queue pair that come within the longest delay, of at most two. */
static void receive_some(struct side* s, enum queue on, unsigned most) {
	const double begin = now();
	unsigned got = 0;
	while (got < most && now() - begin < longest_delay)
		if (poll_once(s, on)) s->r[got++] = s->immediate[on];
}
static void send_two(struct side* s, enum queue on) {
	send_word(s, on, one, 1, 0);
	send_word(s, on, two, 2, 0);
}

static void two_messages(struct side* s) { send_two(s, q); }
static void receive_two(struct side* s) {
	poll_receive(s, q);
	s->r[0] = s->immediate[q];
	poll_receive(s, q);
}

static void receive_two_places(struct side* s) {
	for (int i = 0; i < 2; ++i) {
		poll_receive(s, q);
		s->r[i] = s->receive[q];
	}
}
static bool later_place_first(SIDES) { return (void)first, second->r[0] > second->r[1]; }

static void one_datagram(struct side* s) { send_word(s, ud, one, 1, 0); }
static void receive_datagram(struct side* s) { receive_some(s, ud, 1); }
static void two_datagrams(struct side* s) { send_two(s, ud); }
static void receive_datagrams(struct side* s) { receive_some(s, ud, 2); }
static void one_unreliable(struct side* s) { send_word(s, uc, one, 1, 0); }
static void receive_unreliable(struct side* s) { receive_some(s, uc, 1); }

/* The second process registers its memory once more, and ends that registration. */
static void put_into_region(struct side* s) {
	const uint32_t rkey = s->rkey;
	s->rkey = (uint32_t)meet(s, 0);
	put(s, q, y, one, 0);
	s->rkey = rkey;
	poll_sends(s, q);
	meet(s, 0);
}
static void end_region(struct side* s) {
	struct ibv_mr* const mr =
		ibv_reg_mr(s->pd, s->memory, sizeof *s->memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	if (!mr) fail("ibv_reg_mr");
	meet(s, mr->rkey);
	meet(s, 0);
	if (ibv_dereg_mr(mr)) fail("ibv_dereg_mr");
	s->r[0] = load(s, y);
	for (const double begin = now(); now() - begin < longest_delay;) {}
	s->r[1] = load(s, y);
}
static bool changes_later(SIDES) { return (void)first, second->r[0] != second->r[1]; }

/* The completion is there before the second process asks for an event. */
static void one_message(struct side* s) {
	send_word(s, q, one, 0, 0);
	poll_sends(s, q);
	meet(s, 0);
}
static bool take_event(struct side* s) {
	struct pollfd channel = {s->channel->fd, POLLIN, 0};
	if (poll(&channel, 1, 0) <= 0) return false;
	struct ibv_cq* cq;
	void* context;
	if (ibv_get_cq_event(s->channel, &cq, &context)) fail("ibv_get_cq_event");
	ibv_ack_cq_events(cq, 1);
	return true;
}
static void arm_after_completion(struct side* s) {
	meet(s, 0);
	take_event(s);  /* from an earlier round */
	if (ibv_req_notify_cq(s->receive_cq[q], 0)) fail("ibv_req_notify_cq");
	s->r[0] = take_event(s);
	poll_receive(s, q);
}

/* The message comes after the second process has asked for an event. */
static void one_message_later(struct side* s) {
	meet(s, 0);
	send_word(s, q, one, 0, 0);
	poll_sends(s, q);
}
static void arm_before_completion(struct side* s) {
	take_event(s);  /* from an earlier round */
	if (ibv_req_notify_cq(s->receive_cq[q], 0)) fail("ibv_req_notify_cq");
	meet(s, 0);
	poll_receive(s, q);
	s->r[0] = take_event(s);
}

static void read_and_add(struct side* s) {
	get(s, q, z, y, 0);
	fetch_add(s, q2, f, 1);
	poll_sends(s, q);
	poll_sends(s, q2);
}
static bool later_queue_first(SIDES) { return (void)second, first->order[q2] < first->order[q]; }

const struct test others[] = {
	{"L28", two_messages, receive_two, r0_is_2, 0, {[q] = 2}, 0},
	{"receive-order", two_messages, receive_two_places, later_place_first, 0, {[q] = 2}, 0},
	{"L33", put_into_region, end_region, changes_later, 0, {0}, 10},
	{"L34", one_message, arm_after_completion, r0_is_0, 0, {[q] = 1}, 0},
	{"event-late", one_message_later, arm_before_completion, r0_is_0, 0, {[q] = 1}, 0},
	{"L35", read_and_add, nothing, later_queue_first, 0, {0}, 0},
	{"ud-lost", one_datagram, receive_datagram, r0_is_0, 0, {[ud] = 1}, 0},
	{"ud-order", two_datagrams, receive_datagrams, r0_is_2, 0, {[ud] = 2}, 0},
	{"uc-lost", one_unreliable, receive_unreliable, r0_is_0, 0, {[uc] = 1}, 0},
	{0},
};
