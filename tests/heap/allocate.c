// SPDX-License-Identifier: Apache-2.0
/* Calls each function that allocates, resizes and frees, and expects what the manual pages say.
   Prints `heap` if page-aligned blocks lie in the NIC's heap, else `none`. */
#include "memory.h"

static int first_in_heap = -1;

/* Checks a block and frees it. Either all blocks are in the heap or none is. */
static void check(void* memory, size_t alignment, size_t bytes) {
	EXPECT(memory != NULL && (uintptr_t)memory % alignment == 0);
	if (first_in_heap == -1) first_in_heap = in_heap(memory);
	EXPECT(in_heap(memory) == first_in_heap);
	EXPECT(malloc_usable_size(memory) >= bytes);
	memset(memory, 'x', bytes);
	free(memory);
}

static void check_resizing(void) {
	char* memory = aligned_alloc(PAGE, 3 * PAGE);
	strcpy(memory, "kept");
	memory = realloc(memory, 50 * PAGE);
	EXPECT(memory && strcmp(memory, "kept") == 0);
	memset(memory + 100, 'y', 50 * PAGE - 100);
	memory = realloc(memory, 10);
	EXPECT(memory && strcmp(memory, "kept") == 0);
	memory = reallocarray(memory, 7, 1000);
	EXPECT(memory && strcmp(memory, "kept") == 0 && malloc_usable_size(memory) >= 7000);
	free(memory);
	memory = realloc(NULL, 2 * PAGE);
	EXPECT(memory != NULL);
	free(memory);
}

static void check_errors(void) {
	void* memory = &memory;
	EXPECT(posix_memalign(&memory, opaque(24), 2 * PAGE) == EINVAL);
	EXPECT(posix_memalign(&memory, opaque(PAGE + 8), 2 * PAGE) == EINVAL);
	EXPECT(posix_memalign(&memory, PAGE, opaque(SIZE_MAX / 2)) == ENOMEM);
	EXPECT(memory == &memory);
}

static void check_clearing(void) {
	char* memory = aligned_alloc(PAGE, 3 * PAGE);
	memset(memory, 'x', 3 * PAGE);
	EXPECT(madvise(memory + PAGE, PAGE, MADV_DONTNEED) == 0);
	EXPECT(memory[PAGE - 1] == 'x' && memory[PAGE] == 0 && memory[2 * PAGE] == 'x');
	free(memory);
}

static void* free_in_thread(void* memory) {
	free(memory);
	return NULL;
}

static void* churn(void* unused) {
	for (int i = 0; i < 500; ++i) {
		const size_t bytes = PAGE * (size_t)(1 + i % 7);
		unsigned* memory = memalign(PAGE << i % 4, bytes);
		EXPECT(memory != NULL);
		memory[0] = memory[bytes / 4 - 1] = (unsigned)i;
		void* small = malloc((size_t)i);
		EXPECT(memory[0] == (unsigned)i && memory[bytes / 4 - 1] == (unsigned)i);
		free(small);
		free(memory);
	}
	return unused;
}

int main(void) {
	void* memory = NULL;
	EXPECT(posix_memalign(&memory, PAGE, PAGE) == 0);
	check(memory, PAGE, PAGE);
	EXPECT(posix_memalign(&memory, 2 << 20, 5 << 20) == 0);
	check(memory, 2 << 20, 5 << 20);
	check(memalign(PAGE, 10 * PAGE), PAGE, 10 * PAGE);
	check(memalign(2 * PAGE, 5001), 2 * PAGE, 5001);
	check(valloc(5000), PAGE, 5000);
	check_resizing();
	check_errors();
	check_clearing();

	pthread_t threads[16];
	EXPECT(pthread_create(threads, NULL, free_in_thread, aligned_alloc(PAGE, PAGE)) == 0);
	pthread_join(threads[0], NULL);
	for (int i = 0; i < 16; ++i) EXPECT(pthread_create(&threads[i], NULL, churn, NULL) == 0);
	for (int i = 0; i < 16; ++i) pthread_join(threads[i], NULL);

	puts(first_in_heap ? "heap" : "none");
	return 0;
}
