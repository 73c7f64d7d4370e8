// SPDX-License-Identifier: Apache-2.0
// The memory of one peer process, as its link reaches it for direct operations: mappings of the
// files that the peer's rights name, and process_vm_readv(2) for ordinary memory
// (docs/decisions/0036).
//
// Threads: under the engine's lock.
// Owns: the mappings; not the table and not the word in the link's memory.
// Errors: the peer is untrusted. A file that cannot be mapped, or a process that cannot be read,
//   makes the operation take the ring, and is not tried again.
#pragma once

#include <sys/types.h>

#include "nic/engine/shared_files.h"
#include "nic/transport/peer_memory.h"

namespace verbena::engine {

class PeerAccess final : public transport::PeerMemory {
public:
	// `announced` is the word `direct_access` of the direction that this process writes. `pidfd`
	// stays the caller's; -1: there is none, so ordinary memory is not read.
	PeerAccess(const memory::RightsTable& rights, std::atomic<std::uint64_t>& announced, std::uint64_t own_token,
		pid_t peer, int pidfd);

	// The kernel lets this process reach the peer's memory.
	bool reachable() const { return read_only_.reachable(); }
	bool read(std::uint64_t address, std::span<const iovec> pieces, std::uint32_t length) override;

	// In the child of a fork, which has the lists but not the mappings.
	void abandon_after_fork();

private:
	std::byte* map_anew(std::uint64_t file, std::uint32_t descriptor, std::uint64_t offset, std::uint32_t length,
		bool writable) override;

	PeerFiles read_only_, writable_;
	pid_t peer_;
	int pidfd_;
	bool may_read_;  // process_vm_readv(2) may work
	std::uint64_t refused_file_[2] = {};  // the last that could not be mapped, by `writable`
};

}  // namespace verbena::engine
