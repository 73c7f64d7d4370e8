// Store: a hash table of keys and immutable values in memory, with a memory limit.
//
// A SET never changes a value; it replaces it by a new version. A GET that is still being sent, and
// a lease of the old version, hold that version by a Value, so an overwrite cannot tear them. A
// small value shares one heap allocation with its key. A large one lies in a registered Buffer, so
// that a peer can access it by RDMA.
//
// Threads: one, that of the pool's loop.
// Lifetime: every Value dies before its store, the store before its pool and its journal.
// Errors: a SET that would exceed `memory_max` fails and changes nothing.
// Invariants:
//   used() counts every version that exists, with its key and, in registered memory, by whole
//   blocks: those in the table, old ones that a Value still holds, and new ones whose bytes have
//   not arrived yet.
//   A key can be overwritten in a full store if its new value is no larger: the new version gets
//   the old one's size as a credit until it replaces it.
//   The size of a version depends on its key and value only, so the content of one store fits into
//   any other one with the same limit.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/kv/index.h"
#include "lib/kv/journal.h"

namespace verbena::kv {

class Store;

// One version of one key's value. The key follows it in memory, and behind the key a small value.
struct Item {
	Item* next = nullptr;  // in its bucket
	Store* store = nullptr;
	std::uint64_t hash = 0;  // set when the item enters the table
	std::uint32_t references = 0;  // the table's and those of Values
	std::uint32_t key_length = 0;
	std::uint32_t value_length = 0;
	// While the value's bytes have not arrived: memory that the limit does not count twice, because
	// this version replaces another one of its key.
	std::uint32_t credit = 0;
	channel::Buffer buffer;  // holds a large value; empty for a small one

	std::byte* tail() { return reinterpret_cast<std::byte*>(this + 1); }
	const std::byte* tail() const { return reinterpret_cast<const std::byte*>(this + 1); }
	std::string_view key() const { return {reinterpret_cast<const char*>(tail()), key_length}; }
	Bytes bytes() const { return {buffer ? buffer.data() : tail() + key_length, value_length}; }
};

// A counted handle of one version; the last handle frees it. Empty: no version.
class Value {
public:
	Value() = default;
	explicit Value(Item* item) : item_(item) {
		if (item_ != nullptr) ++item_->references;
	}
	Value(const Value& other) : Value(other.item_) {}
	Value(Value&& other) noexcept : item_(std::exchange(other.item_, nullptr)) {}
	Value& operator=(Value other) noexcept {
		std::swap(item_, other.item_);
		return *this;
	}
	~Value() {
		if (item_ != nullptr && --item_->references == 0) destroy();
	}

	explicit operator bool() const { return item_ != nullptr; }
	Bytes bytes() const { return item_->bytes(); }
	std::uint32_t size() const { return item_->value_length; }
	// The registered memory of a large value; empty if the value lies on the heap.
	const channel::Buffer& buffer() const { return item_->buffer; }

private:
	friend class Store;
	void destroy();
	// Gives the item up without changing its count.
	Item* release() { return std::exchange(item_, nullptr); }
	Item* item_ = nullptr;
};

struct StoreOptions {
	std::size_t memory_max = std::size_t{1} << 30;  // bytes of all versions together
	std::uint32_t registered_min = 2048;  // a value of this size or more lies in a Buffer
	// Bytes of the area that is published for one-sided GETs, in addition to memory_max; 0: none.
	std::size_t index_bytes = 0;
};

// Totals since the store was made; `refused` counts SETs for which there was no memory.
struct StoreCounters {
	std::uint64_t sets = 0, gets = 0, hits = 0, removes = 0, refused = 0;
};

class Store {
public:
	// `pool` is null where no channel is direct: then all values lie on the heap.
	Store(const StoreOptions& options, channel::MemoryPool* pool);
	~Store();
	Store(const Store&) = delete;
	Store& operator=(const Store&) = delete;

	// Returns the current version, or an empty Value if the key is missing.
	Value get(std::string_view key);
	// Copies the value. Returns false if the store is full.
	bool set(std::string_view key, Bytes value);
	// Returns false if the key is missing.
	bool remove(std::string_view key);

	// Reserves memory for a new version, whose bytes the caller moves into its buffer() and then
	// stores by set(). Returns an empty Value if the store is full, or has no pool.
	Value take(std::string_view key, std::size_t size);
	// Stores a version of take(); its bytes must not change any more. Returns false if the version
	// that it was to replace has been removed meanwhile and the store is full without that credit.
	bool set(Value value);

	// From now on every change goes to this journal too, and no value is published for one-sided
	// GETs while a change is not committed.
	void keep(Journal& journal) { journal_ = &journal; }
	Journal* journal() const { return journal_; }

	// Null if nothing is published, or if there was no memory for the area.
	const Index* index() const { return index_.get(); }
	// Publishes a value that a client with one-sided GETs had to ask for by message.
	void publish(std::string_view key, const Value& value);

	std::size_t size() const { return count_; }  // keys
	std::size_t used() const { return used_; }   // bytes of all versions
	const StoreOptions& options() const { return options_; }
	const StoreCounters& counters() const { return counters_; }

private:
	friend class Value;
	using Table = std::vector<Item*>;

	std::uint64_t hash_of(std::string_view key) const;
	Item** find(std::string_view key, std::uint64_t hash);
	std::optional<std::size_t> credit_for(std::string_view key, std::size_t cost);
	Value make(std::string_view key, std::size_t size, bool registered);
	void put(Item* item);
	void grow();
	void migrate(std::size_t buckets);
	static void drop(Table& table);

	StoreOptions options_;
	channel::MemoryPool* pool_;
	std::unique_ptr<Index> index_;
	Journal* journal_ = nullptr;
	std::uint64_t seed_[2];  // keys hash_of()
	// Growth moves a few buckets of `old_` to `table_` with each SET, so that no single operation
	// pays for all of it. Buckets of `old_` below `migrated_` are empty.
	Table table_, old_;
	std::size_t migrated_ = 0;
	std::size_t count_ = 0;
	std::size_t used_ = 0, credit_ = 0;  // bytes of all versions; the part of them that is credit
	StoreCounters counters_;
};

}  // namespace verbena::kv
