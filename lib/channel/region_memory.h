// Memory to be registered. It is a file without a name (memfd_create), not private memory, so that a device that is
// software, in another process of this host, can read it where it lies. Given back with this, even while somebody else
// still has it mapped.
#pragma once

#include <cstddef>
#include <utility>

namespace verbena::channel {

class RegionMemory {
public:
	RegionMemory() = default;
	// Zeroes; nullptr if there is no memory.
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
	int file_ = -1;  // none: the memory is private
};

}  // namespace verbena::channel
