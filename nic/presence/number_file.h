// SPDX-License-Identifier: Apache-2.0
// A file of this process whose text is a number that changes, as the kernel shows a counter: what
// a program gets that opens one. A descriptor that stays open shows the present number when it is
// read again from the start, like one of sysfs.
//
// The file is a memfd. show() writes into its memory, so a reader in another thread may see a
// number that is half old; it then differs from the true one in digits after the eighth only.
//
// Threads: one at a time calls a method; programs read at any time.
// Owns: a descriptor and a mapping of the file; the program's descriptors are its own.
// Errors: errno values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>

namespace verbena::presence {

class NumberFile {
public:
	static std::expected<NumberFile, int> create(std::uint64_t number) noexcept;
	NumberFile(NumberFile&& other) noexcept;
	NumberFile& operator=(NumberFile&& other) noexcept;
	~NumberFile();

	// A new descriptor for the program, for reading only; `flags` are those of its open(2). -1 with
	// errno.
	int open(int flags) const noexcept;
	// True if `fd` is a descriptor of this file.
	bool is_at(int fd) const noexcept;
	// Makes `number` the text of the file. If the text becomes longer and there is no memory, the
	// file keeps the old one.
	void show(std::uint64_t number) noexcept;
	// In the child of a fork, which has the descriptor but not the mapping.
	void abandon_after_fork() noexcept;

private:
	static constexpr std::size_t text_bytes_max = 24;

	NumberFile(int fd, std::byte* memory) : fd_(fd), memory_(memory) {}

	int fd_ = -1;
	std::byte* memory_ = nullptr;
	std::size_t length_ = 0;
	std::uint64_t number_ = 0;
};

}  // namespace verbena::presence
