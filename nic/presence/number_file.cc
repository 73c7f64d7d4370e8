// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/number_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/cancellation.h"
#include "nic/presence/libc.h"

namespace verbena::presence {
namespace {

bool status_of(int fd, struct stat& status) { return libc::fstatat(fd, "", &status, AT_EMPTY_PATH) == 0; }

}  // namespace

std::expected<NumberFile, int> NumberFile::create(std::uint64_t number) noexcept {
	const int fd = memfd_create("verbena-counter", MFD_CLOEXEC);
	if (fd < 0) return std::unexpected(errno);
	void* const memory = mmap(nullptr, text_bytes_max, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		const int error = errno;
		close(fd);
		return std::unexpected(error);
	}
	madvise(memory, text_bytes_max, MADV_DONTFORK);
	NumberFile file(fd, static_cast<std::byte*>(memory));
	file.show(number);
	if (file.length_ == 0) return std::unexpected(ENOMEM);
	return file;
}

NumberFile::NumberFile(NumberFile&& other) noexcept
	: fd_(std::exchange(other.fd_, -1)),
	  memory_(std::exchange(other.memory_, nullptr)),
	  length_(other.length_),
	  number_(other.number_) {}

NumberFile& NumberFile::operator=(NumberFile&& other) noexcept {
	std::swap(fd_, other.fd_);
	std::swap(memory_, other.memory_);
	length_ = other.length_;
	number_ = other.number_;
	return *this;
}

NumberFile::~NumberFile() {
	if (memory_) munmap(memory_, text_bytes_max);
	if (fd_ >= 0) close(fd_);
}

// A second open of the file, because a duplicate would share its position and could write. Where
// there is no /proc, a duplicate is better than nothing.
int NumberFile::open(int flags) const noexcept {
	char path[32];
	// NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg)
	std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd_);
	const int fd = libc::openat(AT_FDCWD, path, O_RDONLY | (flags & (O_CLOEXEC | O_NONBLOCK)), 0);
	return fd >= 0 || errno != ENOENT ? fd : fcntl(fd_, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
}

bool NumberFile::is_at(int fd) const noexcept {
	const int saved_errno = errno;
	struct stat own, other;
	const bool same =
		status_of(fd_, own) && status_of(fd, other) && own.st_dev == other.st_dev && own.st_ino == other.st_ino;
	errno = saved_errno;
	return same;
}

void NumberFile::show(std::uint64_t number) noexcept {
	if (length_ && number == number_) return;
	std::array<std::uint64_t, text_bytes_max / sizeof(std::uint64_t)> words{};
	char* const text = reinterpret_cast<char*>(words.data());
	char* const end = std::to_chars(text, text + text_bytes_max - 1, number).ptr;
	*end = '\n';
	const auto length = static_cast<std::size_t>(end + 1 - text);
	if (length != length_) {
		const NotCancellable whole;
		const int saved_errno = errno;
		// A counter never becomes shorter, except that some start from 0 after a reset.
		const bool written = pwrite(fd_, text, length, 0) == static_cast<ssize_t>(length) &&
			(length > length_ || ftruncate(fd_, static_cast<off_t>(length)) == 0);
		errno = saved_errno;
		if (!written) return;
		length_ = length;
	} else {
		auto* const shown = reinterpret_cast<std::uint64_t*>(memory_);
		for (std::size_t i = words.size(); i-- > 0;)
			if (i * sizeof(std::uint64_t) < length)
				std::atomic_ref(shown[i]).store(words[i], std::memory_order_release);
	}
	number_ = number;
}

void NumberFile::abandon_after_fork() noexcept {
	memory_ = nullptr;
	if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace verbena::presence
