// Store: a hash table of keys and immutable values in memory, with a memory limit.
//
// A SET never changes the bytes of a value: it replaces the value by a new version. The answer to a
// GET that is still being sent, and a lease, hold the version that they began with by a Value, so a
// SET cannot tear it. A small value shares one heap allocation with its key. A large one lies in a
// registered Buffer, so that a peer can access it by RDMA.
//
// Threads: one, that of the pool's loop.
// Lifetime: every Value dies before its store, the store before its pool and its journal.
// Errors: a SET that would exceed `memory_max` fails and changes nothing.
// Invariants:
//   used() counts every version that exists: those in the table, old ones that a Value still holds,
//   and new ones whose bytes have not arrived yet. A version counts with its key and, if its value
//   lies in registered memory, by whole blocks.
//   In a full store, a key can be overwritten by a value that is no larger, if no Value holds the
//   old version. The new version then has a credit: bytes, up to the size of the old version, that
//   the limit does not count until the new version has replaced the old one.
//   The size of a version depends only on its key, its value and the kind of memory that the value
//   lies in. So the content of one store fits into any other store with the same options, if both
//   have a pool or neither has one.
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

// One version of one key's value. In memory the key follows the Item, and a value on the heap
// follows the key.
struct Item {
	Item* next = nullptr;  // the next item of the same bucket
	Store* store = nullptr;
	std::uint64_t hash = 0;  // set when the item enters the table
	std::uint32_t references = 0;  // one for the table, and one for each Value
	std::uint32_t key_length = 0;
	std::uint32_t value_length = 0;
	// While the value's bytes have not arrived: the bytes of this version that the limit does not
	// count, because this version replaces another one of its key.
	std::uint32_t credit = 0;
	channel::Buffer buffer;  // holds the value in registered memory; empty: it is on the heap

	// The bytes behind the Item: the key, then a value on the heap.
	std::byte* tail() { return reinterpret_cast<std::byte*>(this + 1); }
	const std::byte* tail() const { return reinterpret_cast<const std::byte*>(this + 1); }
	std::string_view key() const { return {reinterpret_cast<const char*>(tail()), key_length}; }
	Bytes bytes() const { return {buffer ? buffer.data() : tail() + key_length, value_length}; }
};

// A counted handle of one version. The version is freed when neither a Value nor the table refers
// to it. An empty Value has no version; its bytes(), size() and buffer() must not be called.
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

	explicit operator bool() const { return item_ != nullptr; }  // false: empty
	Bytes bytes() const { return item_->bytes(); }
	std::uint32_t size() const { return item_->value_length; }
	// The registered memory that the value lies in; empty if the value lies on the heap.
	const channel::Buffer& buffer() const { return item_->buffer; }

private:
	friend class Store;
	void destroy();
	// Empties this Value without changing the references of its item.
	Item* release() { return std::exchange(item_, nullptr); }
	Item* item_ = nullptr;
};

struct StoreOptions {
	std::size_t memory_max = std::size_t{1} << 30;  // bytes of all versions together
	std::uint32_t registered_min = 2048;  // a value of this size or more lies in a Buffer
	// Bytes of the area for one-sided GETs (index.h), in addition to memory_max; 0: there is none.
	std::size_t index_bytes = 0;
};

// Totals since the store was made. `hits` counts GETs that found their key, `refused` calls of
// set() and take() for which there was no memory.
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
	// Stores a copy of the value. Returns false, and changes nothing, if the store is full.
	bool set(std::string_view key, Bytes value);
	// Returns false if the key is missing.
	bool remove(std::string_view key);

	// Reserves registered memory for a new version. The caller moves the value's bytes into its
	// buffer(), and then stores it by set(Value). Returns an empty Value if the store is full, or
	// has no pool.
	Value take(std::string_view key, std::size_t size);
	// Stores a version that take() has returned; its bytes must not change any more. Returns false
	// if the store is full because the old version, for which this one has a credit, was removed or
	// replaced by a smaller one meanwhile.
	bool set(Value value);

	// Makes this journal the store's: from now on every change goes to it too, and no value is
	// published for one-sided GETs while the journal has changes that are not committed.
	void keep(Journal& journal) { journal_ = &journal; }
	Journal* journal() const { return journal_; }  // null: none

	// The keys published for one-sided GETs. Null without `index_bytes`, without a pool, or if the
	// pool had no memory for the index.
	const Index* index() const { return index_.get(); }
	// Publishes a value in the index, if there is one. Called when a client with one-sided GETs had
	// to ask for the value by message.
	void publish(std::string_view key, const Value& value);

	std::size_t size() const { return count_; }  // keys
	std::size_t used() const { return used_; }  // bytes of all versions
	const StoreOptions& options() const { return options_; }
	const StoreCounters& counters() const { return counters_; }

private:
	friend class Value;
	using Table = std::vector<Item*>;

	std::uint64_t hash_of(std::string_view key) const;
	Item** find(std::string_view key, std::uint64_t hash);
	std::optional<std::size_t> credit_for(std::string_view key, std::size_t cost);
	Value make(std::string_view key, std::size_t size, bool registered);
	// set() of a Value, which is emptied if that succeeds.
	bool enter(Value& value);
	void put(Item* item);
	void grow();
	void migrate(std::size_t buckets);
	static void drop(Table& table);

	StoreOptions options_;
	channel::MemoryPool* pool_;
	std::unique_ptr<Index> index_;
	Journal* journal_ = nullptr;
	std::uint64_t seed_[2];  // the secret key of hash_of()
	// While the table grows, each SET moves a few buckets of `old_` to `table_`, so that no single
	// SET takes the time for all. Buckets of `old_` below `migrated_` are empty.
	Table table_, old_;
	std::size_t migrated_ = 0;
	std::size_t count_ = 0;
	std::size_t used_ = 0, credit_ = 0;  // bytes of all versions; sum of their credits
	StoreCounters counters_;
};

}  // namespace verbena::kv
