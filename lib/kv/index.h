// SPDX-License-Identifier: Apache-2.0
// Index: the keys that a server publishes for one-sided GETs, in one registered area that clients
// read by RDMA READ (index_format.h).
//
// The index is a cache. A key is published when a client with one-sided GETs asks for it by
// message. It stays until another key takes its line, its record is evicted (the oldest first), or
// it is withdrawn. A SET of a published key publishes the new value, unless that is large.
//
// Threads: one, that of the pool's loop; peers read the area at any time.
// Lifetime: dies before its pool, and before those that share it.
// Invariants:
//   A change is visible in memory before the call returns. So a SET that is acknowledged afterwards
//   is seen by every READ that begins after its acknowledgement.
//   The writer never waits for readers: a line or record that changes under a READ fails its
//   checksum at the reader.
#pragma once

#include <deque>
#include <memory>

#include "lib/channel/memory.h"
#include "lib/kv/index_format.h"
#include "lib/kv/registrations.h"

namespace verbena::kv {

// Totals; `evicted` counts records that made room for newer ones.
struct IndexCounters {
	std::uint64_t published = 0, withdrawn = 0, evicted = 0;
};

class Index {
public:
	static constexpr std::size_t bytes_min = 1 << 20, bytes_max = std::size_t{1} << 31;
	// A SET withdraws a published key whose new value is larger; the next GET by message publishes
	// it again.
	static constexpr std::size_t refreshed_max = 64 << 10;

	// Returns null if the pool has no memory for the area. `bytes` is clamped to bytes_min and
	// bytes_max.
	static std::unique_ptr<Index> make(channel::MemoryPool& pool, std::size_t bytes);

	// Publishes the key with this value, or withdraws it if the value is too large for the area.
	void publish(std::string_view key, Bytes value);
	// If the key is published, publishes its new value or withdraws the key. Returns true if it is
	// published now.
	bool set(std::string_view key, Bytes value);
	// If the key is published, publishes it no longer, and returns true.
	bool withdraw(std::string_view key);

	// The area that each client with one-sided GETs may read.
	channel::Place area() const { return {area_, 0, area_.size()}; }
	// The same memory, registered with this pool, if it is one that shares it.
	channel::Place area(const channel::MemoryPool& pool) const {
		const channel::Buffer* const shared = shared_.at(pool);
		return shared == nullptr ? area() : channel::Place(*shared);
	}
	// Registers the area with this pool too. Returns false if that is not possible.
	bool share(channel::MemoryPool& pool) { return shared_.add(pool, area_.bytes()); }
	void unshare(const channel::MemoryPool& pool) { shared_.remove(pool); }
	const IndexShape& shape() const { return shape_; }
	const IndexCounters& counters() const { return counters_; }

private:
	explicit Index(channel::Buffer area);

	// A value and key that did not fit into their line.
	struct Record {
		std::uint32_t offset = 0, line = 0;  // from the area's begin; the line that refers to it
	};

	LineHeader& header_at(std::uint32_t line) const;
	LineHeader* published_line(std::string_view key, std::uint64_t hash) const;
	std::byte* record_of(LineHeader& header) const;
	bool publish(std::string_view key, Bytes value, std::uint64_t hash);
	std::uint32_t place_for(LineHeader& header, std::uint32_t line, std::uint32_t bytes);
	void evict_oldest();

	channel::Buffer area_;
	Registrations shared_;  // further ones
	IndexShape shape_;
	// The rest of the area behind the lines is a ring of records, from the offset begin_ to the
	// area's end. next_ is where the next record goes; records_ has the oldest one first.
	std::uint32_t begin_ = 0, next_ = 0;
	std::deque<Record> records_;
	IndexCounters counters_;
};

}  // namespace verbena::kv
