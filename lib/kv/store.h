// Store: keys and their values in memory, with a limit.
//
// A value is immutable: SET puts a new version in its place, and whoever still sends or lends the old one holds it by a
// Value. So a GET is never torn, however often its key is overwritten meanwhile. Small values lie with their key on the
// heap, in one allocation; large ones in a registered Buffer, from which they are lent and into which they are read.
//
// Everything that values take counts against `memory_max`, by whole blocks: the old versions that are held too, and
// those that are about to come. Above it SET refuses and changes nothing. A key can be overwritten in a full store if
// the new value is no larger: what the old one takes is a credit of the new one, until that is there. A version that is
// set anew takes no more than it took, so what fits into a store fits into every other one of that size.
//
// One thread. Values die before their store, and the store before its pool and its journal.
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

// One version of one key's value; key and a small value follow it in memory.
struct Item {
	Item* next = nullptr;
	Store* store = nullptr;
	std::uint64_t hash = 0;
	std::uint32_t references = 0;
	std::uint32_t key_length = 0;
	std::uint32_t value_length = 0;
	std::uint32_t credit = 0;  // of one that is about to come: what it takes less, because the present version will go
	channel::Buffer buffer;  // of a large value

	std::byte* tail() { return reinterpret_cast<std::byte*>(this + 1); }
	const std::byte* tail() const { return reinterpret_cast<const std::byte*>(this + 1); }
	std::string_view key() const { return {reinterpret_cast<const char*>(tail()), key_length}; }
	Bytes bytes() const { return {buffer ? buffer.data() : tail() + key_length, value_length}; }
};

// A counted handle.
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
	// Empty: the value lies on the heap.
	const channel::Buffer& buffer() const { return item_->buffer; }

private:
	friend class Store;
	void destroy();
	Item* release() { return std::exchange(item_, nullptr); }
	Item* item_ = nullptr;
};

struct StoreOptions {
	std::size_t memory_max = std::size_t{1} << 30;
	std::uint32_t registered_min = 2048;  // values from this size on lie in Buffers, if there is a pool
	std::size_t index_bytes = 0;  // for what is published to one-sided GETs, above memory_max; 0: nothing is
};

struct StoreCounters {
	std::uint64_t sets = 0, gets = 0, hits = 0, removes = 0, refused = 0;
};

class Store {
public:
	// `pool`: nullptr, where no channel is direct.
	Store(const StoreOptions& options, channel::MemoryPool* pool);
	~Store();
	Store(const Store&) = delete;
	Store& operator=(const Store&) = delete;

	// Empty: missing.
	Value get(std::string_view key);
	// False: full.
	bool set(std::string_view key, Bytes value);
	// False: missing.
	bool remove(std::string_view key);

	// A version of this key that is about to come, by its buffer(). Empty: full.
	Value take(std::string_view key, std::size_t size);
	// It has come, and may be written to no more. False: the version whose room it was to have has gone meanwhile, and
	// the store is full.
	bool set(Value value);

	// From now on every change goes there too, and is published only when it is committed.
	void keep(Journal& journal) { journal_ = &journal; }
	Journal* journal() const { return journal_; }

	// Null: nothing is published, or there was no memory for it.
	const Index* index() const { return index_.get(); }
	// For a client that reads one-sidedly, and had to ask for this value.
	void publish(std::string_view key, const Value& value);

	std::size_t size() const { return count_; }
	std::size_t used() const { return used_; }
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
	std::uint64_t seed_[2];
	// Buckets of the old table below `migrated_` are empty: their items are in the new one. Growing so spreads over the
	// operations.
	Table table_, old_;
	std::size_t migrated_ = 0;
	std::size_t count_ = 0;
	std::size_t used_ = 0, credit_ = 0;  // of all versions
	StoreCounters counters_;
};

}  // namespace verbena::kv
