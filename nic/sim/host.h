// SPDX-License-Identifier: Apache-2.0
// A host of the simulation: one adapter and the memory that its programs have registered.
//
// Owns: the adapter and the regions, which live as long as the host.
// Invariants: memory is addressed by an iova that does not depend on the heap, so that packets have
//   the same bytes in every run. Each region has guard bytes on both sides, which the NIC must
//   never touch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "nic/adapter/channel_adapter.h"
#include "nic/sim/random.h"
#include "nic/wire/flow.h"

namespace verbena::sim {

class Fabric;

inline constexpr std::byte poison{0xa5};  // the initial value of all memory

class Region {
public:
	Region(std::uint64_t iova, std::uint32_t size);

	std::span<std::byte> bytes() { return std::span(storage_).subspan(guard, storage_.size() - 2 * guard); }
	std::span<const std::byte> bytes() const { return std::span(storage_).subspan(guard, storage_.size() - 2 * guard); }
	std::uint64_t at(std::uint64_t offset) const { return iova_ + offset; }  // an iova
	std::uint32_t key() const { return key_; }
	std::uint32_t size() const { return static_cast<std::uint32_t>(bytes().size()); }
	bool guards_are_intact() const;

	queues::Segment segment(std::uint32_t offset, std::uint32_t length) const { return {at(offset), length, key_}; }

private:
	friend class Host;
	static constexpr std::size_t guard = 128;

	std::vector<std::byte> storage_;
	std::uint64_t iova_;
	std::uint32_t key_ = 0;
};

class Host {
public:
	Host(Fabric& fabric, std::uint32_t id, Random random, Nanoseconds now);
	Host(const Host&) = delete;
	Host& operator=(const Host&) = delete;

	Fabric& fabric;
	const std::uint32_t id;  // 1, 2, ...; outlets that lead to this host have it as their `peer`
	const wire::Gid gid;
	adapter::ChannelAdapter adapter;

	// All events that passes have raised, for tests to examine.
	std::vector<transport::RaisedEvent> events;

	// Registers `size` bytes of poison.
	Region& region(std::uint32_t size, std::uint8_t access = everything, std::uint32_t protection_domain = 1);
	bool guards_are_intact() const;

	const transport::Counters& counters() { return adapter.context().counters; }
	// The number of raised events of this kind.
	int raised(transport::AsyncEvent kind) const;

	static constexpr std::uint8_t everything =
		memory::local_write | memory::remote_write | memory::remote_read | memory::remote_atomic | memory::window_bind;

private:
	std::deque<Region> regions_;
};

}  // namespace verbena::sim
