// Memory that lies in files, on both sides of a same-host link: which file a program's memory belongs to, and a peer's
// files mapped here.
//
// Only files of tmpfs and hugetlbfs count (memfd_create, shm_open): they are memory and nothing else. A peer's file is
// opened through /proc/<pid>/fd, which the kernel allows to whoever may look into that process anyway; nothing is sent
// for it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nic/engine/descriptor.h"
#include "nic/memory/shared_regions.h"
#include "nic/wire/slot.h"

namespace verbena::engine {

// A shared mapping's file, kept open.
struct Backing {
	Descriptor descriptor;
	memory::SharedFile file;
};

// Nothing: the memory is private, or in several mappings, or its file has no name any more and no descriptor in this
// process.
std::optional<Backing> find_backing(const void* address, std::size_t length);

namespace detail {

struct SharedMapping {
	std::uint64_t begin = 0, end = 0, offset = 0, inode = 0;
	dev_t device = 0;
	std::string path;
	friend bool operator==(const SharedMapping&, const SharedMapping&) = default;
};
// The shared mapping of a file at an address: by one question, which Linux answers from 6.11 on (`answered`), and from
// the list of all.
std::optional<SharedMapping> ask_mapping(std::uint64_t address, bool& answered);
std::optional<SharedMapping> look_up_mapping(std::uint64_t address);

}  // namespace detail

class PeerFiles {
public:
	// 0: nobody whom we could look into.
	explicit PeerFiles(pid_t peer = 0);
	~PeerFiles();
	PeerFiles(PeerFiles&&) noexcept = default;
	PeerFiles& operator=(PeerFiles&&) = delete;

	// This process may look into the peer.
	bool reachable() const { return reachable_; }
	// What the peer lends, readable here as long as this lives; the file may shrink at any time (then a guarded copy
	// fails). Null: it cannot be had. The first time a file is named it is mapped.
	const std::byte* find(const wire::Lent& lent, std::uint32_t length);

	// In the child of a fork, which has the list but not the mappings.
	void abandon_after_fork() { mappings_.clear(); }

private:
	struct Mapping {
		std::uint64_t file;
		const std::byte* begin;
		std::size_t bytes;
	};
	static constexpr std::size_t mappings_max = 256;

	const Mapping* map(const wire::Lent& lent, std::uint64_t end);

	pid_t peer_;
	bool reachable_ = false;
	std::vector<Mapping> mappings_;  // the last ones used come first, more or less
};

}  // namespace verbena::engine
