// SPDX-License-Identifier: Apache-2.0
// A peer's memory as a same-host link knows it: the rights that the peer publishes, and the ways to
// copy to and from its memory. A requester whose outlet has one executes RDMA WRITEs, READs
// and atomics itself (direct.h).
//
// Threads: under the engine's lock.
// Owns: nothing; the engine's part of the link has the mappings.
// Lifetime: as the link. An outlet refers to it only while the peer lives.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nic/memory/rights_table.h"
#include "nic/wire/slot_ring.h"
#include "nic/wire/traffic.h"

namespace verbena::transport {

class PeerMemory {
public:
	PeerMemory(const memory::RightsTable& rights, std::atomic<std::uint64_t>& announced, std::uint64_t own_token)
		: rights(rights), own_token(own_token), announced_(announced) {}
	PeerMemory(const PeerMemory&) = delete;
	PeerMemory& operator=(const PeerMemory&) = delete;

	memory::RightsReader rights;
	const std::uint64_t own_token;  // as the peer's queue pairs name this process
	// The packets of direct operations, counted as by traffic_of().
	wire::Traffic sent, received;

	// Announces a WRITE or atomic under this key and to this queue pair of the peer: from now on
	// the peer waits for it before it reuses memory whose right it withdraws. A full fence: rights
	// that are read afterwards and still exist are not withdrawn without that wait.
	void announce(std::uint32_t key, wire::Qpn qpn) {
		announced_.exchange(wire::DirectAccess::of(key, qpn).bits, std::memory_order_seq_cst);
	}
	// The operation has ended: all its stores come before this one.
	void retract() { announced_.store(0, std::memory_order_release); }

	// The memory behind [offset, offset + length) of a file of the peer, mapped here. Null: it
	// cannot be mapped. `writable`: for stores too.
	std::byte* map(
		std::uint64_t file, std::uint32_t descriptor, std::uint64_t offset, std::uint32_t length, bool writable) {
		const View& view = views_[writable];
		if (view.file == file && offset <= view.bytes && length <= view.bytes - offset) [[likely]]
			return view.begin + offset;
		return map_anew(file, descriptor, offset, length, writable);
	}
	// Copies ordinary memory of the peer at `address` into `pieces`. False: not all bytes were
	// copied; then some may have been.
	virtual bool read(std::uint64_t address, std::span<const iovec> pieces, std::uint32_t length) = 0;

protected:
	// The last mapping that was used, by `writable`.
	struct View {
		std::uint64_t file = 0;
		std::byte* begin = nullptr;
		std::uint64_t bytes = 0;
	};
	~PeerMemory() = default;
	virtual std::byte* map_anew(
		std::uint64_t file, std::uint32_t descriptor, std::uint64_t offset, std::uint32_t length, bool writable) = 0;

	View views_[2];

private:
	std::atomic<std::uint64_t>& announced_;
};

}  // namespace verbena::transport
