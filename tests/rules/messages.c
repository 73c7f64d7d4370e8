// SPDX-License-Identifier: Apache-2.0
// Two threads that share a variable and use no lock, because a message orders them: the first one
// stores the variable and posts, and the second one polls and loads it.
//
//	messages sent | received | extended   the first one posts a SEND, and the second one polls its
//	                                      completion or that of the receive
//	messages receive | shared             the first one posts the receive, for which a SEND waits
//	messages unrelated                    the completion of another message, which orders nothing
#include <pthread.h>

#include "pair.h"

static struct pair pair, other;
static const char *way;
static int variable;

static bool is_way(const char *name) { return strcmp(way, name) == 0; }
static bool posts_receive(void) { return is_way("receive") || is_way("shared"); }

static void send_to_b(struct pair *through) {
	MUST(post(through->a.qp, request(through, IBV_WR_SEND, IBV_SEND_SIGNALED, 8192, 64, 0)) == 0);
}

static void *store_and_post(void *unused) {
	variable = 1;
	if (posts_receive()) MUST(receive_at(&pair, pair.b.qp, 7, 0, 64) == 0);
	else send_to_b(&pair);
	return unused;
}

static void await_extended(struct ibv_cq *cq) {
	struct ibv_cq_ex *extended = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attributes = {0};
	while (ibv_start_poll(extended, &attributes) == ENOENT);
	MUST(extended->status == IBV_WC_SUCCESS);
	ibv_end_poll(extended);
}

static void *poll_and_load(void *unused) {
	if (is_way("unrelated")) MUST(await(other.b.cq) == IBV_WC_SUCCESS);
	else if (is_way("extended")) await_extended(pair.b.cq);
	else MUST(await(is_way("sent") ? pair.a.cq : pair.b.cq) == IBV_WC_SUCCESS);
	printf("%d\n", variable);
	return unused;
}

int main(int argc, char **argv) {
	MUST(argc == 2);
	way = argv[1];
	struct shape shape = usual;
	shape.shared = is_way("shared");
	shape.extended = is_way("extended");
	pair = make_pair(&shape);
	other = make_pair(&usual);
	if (posts_receive()) send_to_b(&pair);
	else MUST(receive_at(&pair, pair.b.qp, 7, 0, 64) == 0);
	MUST(receive_at(&other, other.b.qp, 7, 0, 64) == 0);
	send_to_b(&other);
	pthread_t threads[2];
	MUST(pthread_create(&threads[0], NULL, store_and_post, NULL) == 0);
	MUST(pthread_create(&threads[1], NULL, poll_and_load, NULL) == 0);
	for (int i = 0; i < 2; ++i) MUST(pthread_join(threads[i], NULL) == 0);
	return 0;
}
