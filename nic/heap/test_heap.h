// SPDX-License-Identifier: Apache-2.0
// Helpers for the tests of the heap. Each test program has the heap on.
#pragma once

#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "nic/heap/heap.h"
#include "nic/heap/page_map.h"

namespace verbena::heap {

// A block of the heap, which the caller frees.
inline char* block(std::size_t bytes, std::size_t alignment = page_bytes) {
	void* memory = nullptr;
	EXPECT_EQ(posix_memalign(&memory, alignment, bytes), 0);
	EXPECT_TRUE(contains(memory));
	return static_cast<char*>(memory);
}

// The bytes that a peer reads which opens the file behind a place.
inline std::string read_file(const Place& place, std::size_t bytes) {
	std::string text(bytes, '?');
	EXPECT_EQ(
		pread(place.descriptor, text.data(), bytes, static_cast<off_t>(place.offset)), static_cast<ssize_t>(bytes));
	return text;
}

// The bytes of memory that a file has.
inline std::size_t file_memory(int descriptor) {
	struct stat facts{};
	EXPECT_EQ(fstat(descriptor, &facts), 0);
	return static_cast<std::size_t>(facts.st_blocks) * 512;
}

// Runs `body` in a fork's child, and returns true if it did.
template <class Body> bool holds_in_child(Body body) {
	const pid_t child = fork();
	if (child == 0) {
		alarm(20);
		_exit(body() ? 0 : 1);
	}
	int status = -1;
	waitpid(child, &status, 0);
	return status == 0;
}

// The same address as `memory`, for a look at it after it was freed.
inline const void* address_of(const void* memory) {
	const void* volatile address = memory;
	return address;
}

}  // namespace verbena::heap
