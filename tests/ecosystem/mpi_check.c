// SPDX-License-Identifier: Apache-2.0
/*
 * mpi_check [ROUNDS]: exchanges data between MPI ranks and compares every byte that arrives.
 *
 * A round has a ring of messages from 1 byte to 1 MiB, an allreduce, an alltoall, puts, and
 * fetch-and-op on a counter of rank 0. Rank 0 prints "R ranks, N wrong of M values". Exits with 1
 * if a value is wrong.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;
static long compared, wrong;

/* Compares, and prints the first wrong value of a rank. */
static void expect(const char* step, long got, long expected) {
	++compared;
	if (got == expected) return;
	if (wrong++ == 0) printf("rank %d: %s: got %ld instead of %ld\n", rank, step, got, expected);
}

/* The byte at `index` of what `sender` sends in this round: no two senders or rounds are alike. */
static unsigned char pattern(size_t index, int sender, int round) {
	return (unsigned char)(index * 31 + index / 256 + (size_t)sender * 7 + (size_t)round * 13);
}

static void* allocate(size_t bytes) {
	void* memory = malloc(bytes);
	if (memory == NULL) MPI_Abort(MPI_COMM_WORLD, 2);
	return memory;
}

static void ring(size_t size, int round) {
	const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	unsigned char* to = allocate(size);
	unsigned char* from = allocate(size);
	for (size_t i = 0; i < size; ++i) to[i] = pattern(i, rank, round);
	memset(from, 0, size);
	MPI_Sendrecv(to, (int)size, MPI_BYTE, next, round, from, (int)size, MPI_BYTE, previous, round, MPI_COMM_WORLD,
		MPI_STATUS_IGNORE);
	for (size_t i = 0; i < size; ++i) expect("ring", from[i], pattern(i, previous, round));
	free(to);
	free(from);
}

static void allreduce(int count, int round) {
	long* mine = allocate((size_t)count * sizeof *mine);
	long* sums = allocate((size_t)count * sizeof *sums);
	for (int i = 0; i < count; ++i) mine[i] = (long)i * round + rank;
	MPI_Allreduce(mine, sums, count, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < count; ++i) expect("allreduce", sums[i], (long)ranks * i * round + ranks * (ranks - 1) / 2);
	free(mine);
	free(sums);
}

static void alltoall(size_t size, int round) {
	unsigned char* to = allocate(size * (size_t)ranks);
	unsigned char* from = allocate(size * (size_t)ranks);
	for (int peer = 0; peer < ranks; ++peer)
		for (size_t i = 0; i < size; ++i) to[(size_t)peer * size + i] = pattern(i + (size_t)peer, rank, round);
	MPI_Alltoall(to, (int)size, MPI_BYTE, from, (int)size, MPI_BYTE, MPI_COMM_WORLD);
	for (int peer = 0; peer < ranks; ++peer)
		for (size_t i = 0; i < size; ++i)
			expect("alltoall", from[(size_t)peer * size + i], pattern(i + (size_t)rank, peer, round));
	free(to);
	free(from);
}

/* With them, a window is a multiple of 64 bytes. MPICH 4.0 misplaces others over shared memory,
 * also without a NIC. */
enum { put_values = 5119, additions = 50 };

/* Each rank puts values into the next one's window, and all add to the counter of rank 0. */
static void one_sided(int round) {
	const int next = (rank + 1) % ranks, previous = (rank + ranks - 1) % ranks;
	int64_t* memory;
	int64_t values[put_values];
	MPI_Win window;
	MPI_Win_allocate(
		(1 + put_values) * sizeof *memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
	MPI_Win_lock_all(0, window);
	memset(memory, 0, (1 + put_values) * sizeof *memory);
	MPI_Win_sync(window);
	MPI_Barrier(MPI_COMM_WORLD);

	for (int i = 0; i < put_values; ++i) values[i] = (int64_t)round * 1000000 + rank * 10000 + i;
	MPI_Put(values, put_values, MPI_INT64_T, next, 1, put_values, MPI_INT64_T, window);
	MPI_Win_flush(next, window);
	int64_t last = -1;
	for (int i = 0; i < additions; ++i) {
		const int64_t one = 1;
		int64_t old;
		MPI_Fetch_and_op(&one, &old, MPI_INT64_T, 0, 0, MPI_SUM, window);
		MPI_Win_flush(0, window);
		expect("the counter grows", old > last, 1);
		last = old;
	}
	MPI_Win_sync(window);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_sync(window);
	for (int i = 0; i < put_values; ++i)
		expect("put", (long)memory[1 + i], (long)round * 1000000 + previous * 10000 + i);
	if (rank == 0) expect("fetch-and-op", (long)memory[0], (long)additions * ranks);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_unlock_all(window);
	MPI_Win_free(&window);
}

int main(int argc, char** argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	const int rounds = argc > 1 ? atoi(argv[1]) : 1;
	for (int round = 0; round < rounds; ++round) {
		for (size_t size = 1; size <= 1 << 20; size *= 4) ring(size, round % 1000);
		for (int count = 1; count <= 1 << 15; count *= 32) allreduce(count, round % 1000);
		alltoall(100, round % 1000);
		alltoall(40000, round % 1000);
		one_sided(round % 1000);
	}
	long mine[2] = {wrong, compared}, all[2] = {0, 0};
	MPI_Reduce(mine, all, 2, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
	if (rank == 0) printf("%d ranks, %ld wrong of %ld values\n", ranks, all[0], all[1]);
	MPI_Finalize();
	return wrong != 0;
}
