// SPDX-License-Identifier: Apache-2.0
// A sealed memfd that holds pages of the heap.
//
// Threads: any.
// Owns: nothing; the heap closes its files itself.
// Invariants: a program may close any descriptor, also one that is not its own, and another file
//   may then have the number. So each use of a descriptor first compares the inode.
// Errors: false or nothing; errno is undefined afterwards.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace verbena::heap {

struct File {
	int descriptor = 0;
	std::uint64_t inode = 0;  // 0, which no file has: this is none
	dev_t device = 0;
};

// A new file of this size, which can never change. It is closed on exec.
std::optional<File> create_file(std::size_t bytes);
// True if the descriptor is still that of the file.
bool is_open(const File& file);
void close_file(const File& file);
// Gives the memory of these pages back to the system; they read as zero afterwards.
bool punch(const File& file, std::uint64_t offset, std::size_t bytes);
// Takes the access to a range away, and the memory behind it if that is private. False: nothing has
// changed.
bool close_range(void* begin, std::size_t bytes);
// madvise(2) itself. The heap's own calls of madvise() would come back to it.
int ask_kernel(void* address, std::size_t bytes, int advice);
bool read_all(const File& file, std::uint64_t offset, void* to, std::size_t bytes);

// A part of a file, of which a part may have memory.
struct Extent {
	std::uint64_t begin, end;
};
// The first extent in [begin, end) that has memory, or may have some. Nothing: there is none, or
// the file is not open any more.
std::optional<Extent> next_data(const File& file, std::uint64_t begin, std::uint64_t end);

}  // namespace verbena::heap
