// Index: what a server publishes of its store, in one registered area that clients read by RDMA READ (index_format.h).
//
// It is a cache: a key is published when a client that reads it asks by message, and stays until another key takes its
// line, its record's place is needed (the oldest go first), or it is withdrawn. Setting a published key publishes its
// new value, if it is not large. Changes are visible before the call returns, so a SET that is acknowledged afterwards
// is seen by every READ that begins then.
//
// Readers are not waited for: a line or a record that changes under a READ fails its checksum there.
//
// One thread. Dies before its pool.
#pragma once

#include <deque>
#include <memory>

#include "lib/channel/memory.h"
#include "lib/kv/index_format.h"

namespace verbena::kv {

struct IndexCounters {
	std::uint64_t published = 0, withdrawn = 0, evicted = 0;
};

class Index {
public:
	static constexpr std::size_t bytes_min = 1 << 20, bytes_max = std::size_t{1} << 31;
	static constexpr std::size_t refreshed_max = 64
		<< 10;  // a larger value is withdrawn when it is set, until somebody asks for it

	// Null: the pool has no memory for it.
	static std::unique_ptr<Index> make(channel::MemoryPool& pool, std::size_t bytes);

	void publish(std::string_view key, Bytes value);
	// The key has this value now: publishes or withdraws it, if it is published.
	void set(std::string_view key, Bytes value);
	void withdraw(std::string_view key);

	// What is lent to each client.
	channel::Place area() const { return {area_, 0, area_.size()}; }
	const IndexShape& shape() const { return shape_; }
	const IndexCounters& counters() const { return counters_; }

private:
	explicit Index(channel::Buffer area);

	struct Record {
		std::uint32_t offset = 0, line = 0;
	};

	LineHeader& header_at(std::uint32_t line) const;
	LineHeader* published_line(std::string_view key, std::uint64_t hash) const;
	std::byte* record_of(LineHeader& header) const;
	void publish(std::string_view key, Bytes value, std::uint64_t hash);
	std::uint32_t place_for(LineHeader& header, std::uint32_t line, std::uint32_t bytes);
	void evict_oldest();

	channel::Buffer area_;
	IndexShape shape_;
	// Records lie in the area behind the lines, written round and round: those in `records_` from the oldest to the
	// newest.
	std::uint32_t begin_ = 0, next_ = 0;
	std::deque<Record> records_;
	IndexCounters counters_;
};

}  // namespace verbena::kv
