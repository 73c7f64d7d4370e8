// SPDX-License-Identifier: Apache-2.0
/* Litmus tests: two processes with two reliable queue pairs between them, and an outcome that may
 * or may not be seen. A test is a few lines for each process; harness.c runs it many times.
 *
 * Each process has words of 8 bytes, each in a cache line of its own, and a block of bytes, all 0
 * at the start of a round. The names are those of docs/memory-model.md: q and q2 are the reliable
 * queue pairs; x, z, a and b are words of the first process; d, f, y and lock of the second.
 */
#ifndef LITMUS_H
#define LITMUS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { words = 16, block_size = 64 << 10, reliable_queues = 2, queues = 4, registers = 4 };
enum word { x, y, z, a, b, d, f, lock, one, two, ten, scratch };
enum queue { q, q2, uc, ud };

/* Registered; the same layout in both processes. */
struct memory {
	struct {
		volatile uint64_t value;
		uint64_t unused[7];
	} word[words];
	unsigned char block[block_size], received[block_size];
};

struct side {
	struct ibv_context* context;
	struct ibv_pd* pd;
	struct ibv_mr* mr;
	struct ibv_comp_channel* channel;
	struct ibv_cq *send_cq, *receive_cq[queues];
	struct ibv_qp* qp[queues];
	struct ibv_ah* ah;
	struct memory* memory;
	uint64_t remote;  /* the address of the other side's memory */
	uint32_t rkey, remote_qpn[queues];
	int socket;
	unsigned posted[queues], done[queues], order[queues], completions;
	uint32_t immediate[queues];  /* the last message's that was received */
	uint64_t receives, receive[queues];  /* posted so far; the number of the last completed one */
	int round;
	uint64_t r[registers], final[words];
};

struct test {
	const char* name;
	void (*first)(struct side*), (*second)(struct side*);
	/* Whether the outcome in question was seen: the registers and last words of both. */
	bool (*seen)(const struct side* first, const struct side* second);
	void (*prepare)(struct side* second);  /* may be null */
	unsigned receives[queues];  /* those that the second process posts */
	int rounds_divisor;  /* 0: 1. Slow tests run less often. */
};

extern const struct test writes[], reads[], atomics[], others[];

static inline uint64_t load(const struct side* s, enum word w) { return s->memory->word[w].value; }
static inline void store(struct side* s, enum word w, uint64_t value) { s->memory->word[w].value = value; }
/* Spins until the word is not 0. */
void await(const struct side* s, enum word w);

/* Requests, all signaled unless the flags say otherwise. `to` and `from` name the words there and
 * here, as in "put(q, d := one)". */
enum { fence = IBV_SEND_FENCE, in_line = IBV_SEND_INLINE };
void put(struct side*, enum queue, enum word there, enum word here, int flags);
void put_imm(struct side*, enum queue, enum word there, enum word here);
void get(struct side*, enum queue, enum word here, enum word there, int flags);
void get_two(struct side*, enum queue, enum word here, enum word there);  /* two words, one READ */
void put_block(struct side*, enum queue);
void send_word(struct side*, enum queue, enum word here, uint32_t immediate, int flags);
void fetch_add(struct side*, enum queue, enum word there, uint64_t value);
void compare_swap(struct side*, enum queue, enum word here, enum word there, uint64_t expected, uint64_t value);

/* Waits until all requests of the queue pair have completed. */
void poll_sends(struct side*, enum queue);
void poll_receive(struct side*, enum queue);
/* One look at the receives: whether one has come. */
bool poll_once(struct side*, enum queue);
/* A pause of some microseconds, which depends on the round. */
void dawdle(const struct side*);
/* Both processes call it, and each gets the value of the other: whatever came before is over. */
uint64_t meet(struct side*, uint64_t value);
/* No store is later than this, in seconds. */
static const double longest_delay = 0.025;
double now(void);
_Noreturn void fail(const char* what);

#endif
