// SPDX-License-Identifier: Apache-2.0
// Memory that two processes share: a memfd that holds exactly one object and can never change its
// size.
//
// Without the seals, a peer's ftruncate() would turn our next access into a SIGBUS. map_sealed()
// therefore checks type, size and seals before it maps memory that came from outside. Where the
// kernel or a filter of system calls refuses seals to this process, it also accepts memory without
// them from processes of the same user, which could end this one anyway.
//
// Threads: any.
// Owns: SealedMemory owns the descriptor and the mapping, Mapped the mapping alone.
// Invariants: fresh memory is zero, and that must be a valid T. A fork's child inherits no mapping.
// Errors: errno values.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <expected>
#include <memory>

#include "base/descriptor.h"

namespace verbena::engine {

// Whether memory without seals is refused also where this process cannot make any.
enum class Seals : bool { if_possible, always };

// Where memfd_create(2) is refused: another file, all of whose pages are allocated now, or none
// (ENOTSUP), as for large memory of which few pages are used.
enum class WithoutMemfd : bool { none, file };

namespace detail {
std::expected<Descriptor, int> create_memory(
	const char* name, std::size_t bytes, WithoutMemfd otherwise = WithoutMemfd::file);
// The first `prefault` bytes are populated now, the others when they are used.
std::expected<void*, int> map_memory(int fd, std::size_t bytes, int protection, std::size_t prefault);
int seal_memory(int fd, bool others_may_write);
int check_sealed(int fd, std::size_t bytes, Seals seals);  // 0 or errno
}  // namespace detail

struct Unmap {
	template <class T> void operator()(T* object) const {
		munmap(const_cast<std::remove_const_t<T>*>(object), sizeof(T));
	}
};
template <class T> using Mapped = std::unique_ptr<T, Unmap>;

// In the child of a fork: forgets a mapping without unmapping it. It does not exist there
// (MADV_DONTFORK), and other memory may be at its address.
template <class T> void forget_mapping(Mapped<T>& mapped) { [[maybe_unused]] T* const gone = mapped.release(); }

enum class Writers : bool { this_mapping, everyone };

template <class T> struct SealedMemory {
	Descriptor fd;
	Mapped<T> object;
};

// Creates memory, zeroed and mapped for writing. Errors: EMFILE, ENOMEM and others of
// memfd_create(2), ftruncate(2) and mmap(2).
template <class T>
std::expected<SealedMemory<T>, int> create_sealed(
	const char* name, Writers writers, std::size_t prefault = 0, WithoutMemfd otherwise = WithoutMemfd::file) {
	auto fd = detail::create_memory(name, sizeof(T), otherwise);
	if (!fd) return std::unexpected(fd.error());
	auto at = detail::map_memory(fd->get(), sizeof(T), PROT_READ | PROT_WRITE, prefault);
	if (!at) return std::unexpected(at.error());
	Mapped<T> object(static_cast<T*>(*at));
	if (const int error = detail::seal_memory(fd->get(), writers == Writers::everyone)) return std::unexpected(error);
	return SealedMemory<T>{std::move(*fd), std::move(object)};
}

// Maps a peer's memory, read-only if T is const. EPROTO: `fd` is no memfd of this size with these
// seals.
template <class T>
std::expected<Mapped<T>, int> map_sealed(int fd, std::size_t prefault = 0, Seals seals = Seals::if_possible) {
	if (const int error = detail::check_sealed(fd, sizeof(T), seals)) return std::unexpected(error);
	auto at = detail::map_memory(fd, sizeof(T), std::is_const_v<T> ? PROT_READ : PROT_READ | PROT_WRITE, prefault);
	if (!at) return std::unexpected(at.error());
	return Mapped<T>(static_cast<T*>(*at));
}

}  // namespace verbena::engine
