// SPDX-License-Identifier: Apache-2.0
// An array in memory that this process shares with those that it forks.
//
// Threads: as the elements are.
// Owns: the mapping; the elements must need no destructor.
// Errors: std::bad_alloc.
#pragma once

#include <sys/mman.h>

#include <new>
#include <span>

namespace verbena::scale {

template <class T> class SharedArray {
public:
	explicit SharedArray(std::size_t count) : bytes_(count * sizeof(T)) {
		void* const at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (at == MAP_FAILED) throw std::bad_alloc();
		items_ = {new (at) T[count], count};
	}
	~SharedArray() { munmap(items_.data(), bytes_); }
	SharedArray(const SharedArray&) = delete;
	SharedArray& operator=(const SharedArray&) = delete;
	std::span<T> items() const { return items_; }

private:
	std::size_t bytes_;
	std::span<T> items_;
};

}  // namespace verbena::scale
