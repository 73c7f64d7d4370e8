// SPDX-License-Identifier: Apache-2.0
// A file mapped for reading.
//
// Owns: the mapping, to the end of its life.
// Errors: error() is the errno of the call that failed; then bytes() is empty.
#pragma once

#include <cerrno>
#include <cstddef>
#include <fcntl.h>
#include <span>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbena::trace {

class MappedFile {
public:
	explicit MappedFile(const std::string& path) {
		const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
		struct stat facts{};
		if (fd < 0 || fstat(fd, &facts) != 0) {
			error_ = errno;
		} else if (facts.st_size > 0) {
			const auto size = static_cast<std::size_t>(facts.st_size);
			void* const memory = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
			if (memory == MAP_FAILED) error_ = errno;
			else bytes_ = {static_cast<const std::byte*>(memory), size};
		}
		if (fd >= 0) close(fd);
	}
	~MappedFile() {
		if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
	}
	MappedFile(const MappedFile&) = delete;
	MappedFile& operator=(const MappedFile&) = delete;

	int error() const { return error_; }
	std::span<const std::byte> bytes() const { return bytes_; }

private:
	int error_ = 0;
	std::span<const std::byte> bytes_;
};

}  // namespace verbena::trace
