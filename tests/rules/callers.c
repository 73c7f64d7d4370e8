// SPDX-License-Identifier: Apache-2.0
// Two functions post by the same helper, and one of them changes its memory too early.
#include "pair.h"

static struct pair pair;

__attribute__((noinline)) static void post_write(uint64_t id) {
	struct ibv_send_wr* const wr = request(&pair, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED, 0, 64, 8192);
	wr->wr_id = id;
	MUST(post(pair.a.qp, wr) == 0);
	__asm__ volatile("");  // no tail call
}

__attribute__((noinline)) static void patient(void) {
	post_write(1);
	MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
}

__attribute__((noinline)) static void hasty(void) {
	post_write(2);
	pair.memory[0] ^= 1;
	MUST(await(pair.a.cq) == IBV_WC_SUCCESS);
}

int main(void) {
	pair = make_pair(&usual);
	for (int i = 0; i < 3; ++i) patient();
	hasty();
	patient();
	end_pair(&pair);
	return 0;
}
