// SPDX-License-Identifier: Apache-2.0
// Memory that is to be registered: zeroed, and backed by an unnamed file (memfd_create) instead of
// private pages, so that a software device in another process of this host can map it and read it
// in place (docs/decisions/0016).
//
// Owns: the mapping and the file. Destroying it returns the pages to the kernel even while another
//   process still maps them.
#pragma once

#include <cstddef>
#include <utility>

namespace verbena::channel {

class RegionMemory {
public:
	RegionMemory() = default;
	// Zeroed memory; data() is null if there is none.
	explicit RegionMemory(std::size_t bytes);
	RegionMemory(RegionMemory&& other) noexcept
		: at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_), file_(std::exchange(other.file_, -1)) {}
	RegionMemory& operator=(RegionMemory&& other) noexcept {
		std::swap(at_, other.at_);
		std::swap(bytes_, other.bytes_);
		std::swap(file_, other.file_);
		return *this;
	}
	~RegionMemory();

	std::byte* data() const { return at_; }
	std::size_t size() const { return bytes_; }
	explicit operator bool() const { return at_ != nullptr; }

private:
	std::byte* at_ = nullptr;
	std::size_t bytes_ = 0;
	int file_ = -1;  // -1: no file could be made, and the memory is private
};

}  // namespace verbena::channel
