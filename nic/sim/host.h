// A host of the simulation: one adapter and the memory that its programs have registered.
//
// Memory is named by iova, not by where the heap put it, so that packets are the same bytes in every run. Each region
// has guard bytes on both sides: the NIC must never touch them.
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

inline constexpr std::byte poison{0xa5};  // what memory holds before anything is written to it

class Region {
public:
	Region(std::uint64_t iova, std::uint32_t size);

	std::span<std::byte> bytes() { return std::span(storage_).subspan(guard, storage_.size() - 2 * guard); }
	std::span<const std::byte> bytes() const { return std::span(storage_).subspan(guard, storage_.size() - 2 * guard); }
	std::uint64_t at(std::uint64_t offset) const { return iova_ + offset; }
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
	const std::uint32_t id;  // from 1 on; outlets that lead here have it as their `peer`
	const wire::Gid gid;
	adapter::ChannelAdapter adapter;

	// What the passes have raised, for tests to look at.
	std::vector<transport::RaisedEvent> events;
	std::vector<queues::CompletionQueue*> raised_queues;

	// Registers `size` bytes of poison. Lives as long as the host.
	Region& region(std::uint32_t size, std::uint8_t access = everything, std::uint32_t protection_domain = 1);
	bool guards_are_intact() const;

	const transport::Counters& counters() { return adapter.context().counters; }
	int raised(transport::AsyncEvent kind) const;

	static constexpr std::uint8_t everything =
		memory::local_write | memory::remote_write | memory::remote_read | memory::remote_atomic | memory::window_bind;

private:
	std::deque<Region> regions_;
};

}  // namespace verbena::sim
