// SPDX-License-Identifier: Apache-2.0
// Program memory that lies in files, for same-host transfers without a copy through the ring: the
// file behind a range of our memory, and a peer's files mapped here (docs/decisions/0016).
//
// Only files of tmpfs and hugetlbfs count (memfd_create, shm_open), because they are memory and
// nothing else. A peer's file is opened through /proc/<pid>/fd; the kernel allows that to processes
// that may ptrace the peer. No descriptor is sent.
//
// Threads: find_backing() any; a PeerFiles under its link's lock.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "nic/memory/shared_regions.h"
#include "nic/wire/slot.h"

namespace verbena::engine {

// The file of a shared mapping, kept open.
struct Backing {
	Descriptor descriptor;
	memory::SharedFile file;
};

// The file behind a range of memory. Nothing if the memory is private or spans several mappings, or
// if its file has no name any more and this process has no descriptor of it.
std::optional<Backing> find_backing(const void* address, std::size_t length);

namespace detail {

struct SharedMapping {
	std::uint64_t begin = 0, end = 0, offset = 0, inode = 0;
	dev_t device = 0;
	std::string path;
	friend bool operator==(const SharedMapping&, const SharedMapping&) = default;
};
// Both find the shared file mapping at an address. ask_mapping() makes one ioctl(2), which Linux
// has from 6.11 on (`answered`: it has); look_up_mapping() reads /proc/self/maps.
std::optional<SharedMapping> ask_mapping(std::uint64_t address, bool& answered);
std::optional<SharedMapping> look_up_mapping(std::uint64_t address);

}  // namespace detail

// A peer's files that are mapped here, at most mappings_max.
class PeerFiles {
public:
	// For writing, only a memfd of sealed size is mapped.
	enum class For : bool { reading, writing };

	// `peer`: 0 if the peer's pid is not known here, so that none of its files can be opened.
	explicit PeerFiles(pid_t peer = 0, For use = For::reading);
	~PeerFiles();
	PeerFiles(PeerFiles&&) noexcept = default;
	PeerFiles& operator=(PeerFiles&&) = delete;

	// The kernel lets this process open the peer's files.
	bool reachable() const { return reachable_; }
	// The shared range, readable here as long as this object lives; the file may shrink at any
	// time, and then a guarded copy fails. Null: the file cannot be opened or mapped. A file is
	// mapped when it is first named.
	const std::byte* find(const wire::SharedPayload& shared, std::uint32_t length);
	// The whole mapping of a file, which holds `end` bytes at least. Null as from find(). `begin`
	// is valid until the next call of find() or file().
	struct File {
		std::byte* begin;
		std::size_t bytes;
	};
	File file(std::uint64_t inode, std::uint32_t descriptor, std::uint64_t end);

	// In the child of a fork, which has the list but not the mappings (MADV_DONTFORK).
	void abandon_after_fork() { mappings_.clear(); }

private:
	struct Mapping {
		std::uint64_t file;
		const std::byte* begin;
		std::size_t bytes;
	};
	static constexpr std::size_t mappings_max = 256;

	const Mapping* map(std::uint64_t inode, std::uint32_t descriptor, std::uint64_t end);

	pid_t peer_;
	For use_;
	bool reachable_ = false;
	std::vector<Mapping> mappings_;  // roughly in the order of their last use
};

}  // namespace verbena::engine
