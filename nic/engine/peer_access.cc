// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/peer_access.h"

#include <poll.h>
#include <sys/uio.h>

#include <cerrno>

namespace verbena::engine {

PeerAccess::PeerAccess(const memory::RightsTable& rights, std::atomic<std::uint64_t>& announced,
	std::uint64_t own_token, pid_t peer, int pidfd)
	: PeerMemory(rights, announced, own_token),
	  read_only_(peer),
	  writable_(peer, PeerFiles::For::writing),
	  peer_(peer),
	  pidfd_(pidfd),
	  may_read_(pidfd >= 0) {}

std::byte* PeerAccess::map_anew(
	std::uint64_t file, std::uint32_t descriptor, std::uint64_t offset, std::uint32_t length, bool writable) {
	const std::uint64_t end = offset + length;
	if (file == refused_file_[writable] || end < offset) return nullptr;
	View& view = views_[writable];
	view = {};  // its mapping may be replaced
	const PeerFiles::File found = (writable ? writable_ : read_only_).file(file, descriptor, end);
	if (!found.begin) {
		refused_file_[writable] = file;
		return nullptr;
	}
	view = {file, found.begin, found.bytes};
	return found.begin + offset;
}

bool PeerAccess::read(std::uint64_t address, std::span<const iovec> pieces, std::uint32_t length) {
	if (!may_read_) return false;
	const iovec remote{reinterpret_cast<void*>(address), length};
	const ssize_t got = process_vm_readv(peer_, pieces.data(), pieces.size(), &remote, 1, 0);
	if (got < 0 && (errno == EPERM || errno == ENOSYS)) may_read_ = false;
	if (got != static_cast<ssize_t>(length)) return false;
	// The number of a process that has ended may be another process's now.
	pollfd end{pidfd_, POLLIN, 0};
	return poll(&end, 1, 0) == 0;
}

void PeerAccess::abandon_after_fork() {
	read_only_.abandon_after_fork();
	writable_.abandon_after_fork();
	views_[0] = views_[1] = {};
}

}  // namespace verbena::engine
