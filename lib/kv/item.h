// SPDX-License-Identifier: Apache-2.0
// Item: one version of one key's value, in one block of the store's arena. Value: a counted handle
// of an item.
//
// Threads: one, the store's.
// Lifetime: every Value dies before its store.
// Invariants: while a Value holds an item, the item is neither moved nor freed.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "lib/channel/memory.h"
#include "lib/kv/state/arena.h"
#include "lib/kv/state/eviction.h"
#include "lib/kv/state/expiry.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

class Store;

// In memory the Item is followed by the parts that only some items have (the place in the
// eviction's queue, the end of life), the key, and the value. A long value begins at a cache line,
// because copies of other bytes take longer.
struct Item {
	static constexpr std::size_t aligned_from = 4096, alignment = 64;
	Item* next = nullptr;  // the next item of the same bucket
	Store* store = nullptr;
	std::uint64_t hash = 0;  // the key's
	std::uint64_t version = 0;  // one more with each change of the store; 0: not in the store yet
	std::uint32_t references = 0;  // one for the table, and one for each Value
	std::uint32_t value_length = 0;
	// While the version is not in the table: the bytes of it that the limit does not count, because
	// it replaces another one of its key.
	std::uint32_t credit = 0;
	std::uint16_t key_length = 0;
	bool in_table = false;
	std::uint8_t parts = 0;  // the bytes of the parts that follow: `evictable` and `mortal`

	// One bit each, so that the sum of the bytes says which parts there are.
	static constexpr std::uint8_t evictable = 16, mortal = 32;
	static_assert(sizeof(Eviction::Entry) <= evictable && sizeof(Expiry::Entry) <= mortal);

	// Where a value of this length begins, in bytes from the Item on. A block that has room for a
	// long one is aligned to a cache line.
	static constexpr std::size_t value_offset(std::uint8_t parts, std::size_t key_length, std::size_t value_length) {
		const std::size_t end_of_key = sizeof(Item) + parts + key_length;
		return value_length < aligned_from ? end_of_key : (end_of_key + alignment - 1) / alignment * alignment;
	}
	std::size_t value_offset() const { return value_offset(parts, key_length, value_length); }
	// The bytes that were asked of the arena for this item, and those that it has taken for them.
	std::size_t block_bytes() const { return value_offset() + value_length; }
	std::size_t cost() const { return Arena::block_size(block_bytes()); }
	// The monotonic time from which on the key is missing; `never`: it has none.
	Nanoseconds end() const { return (parts & mortal) != 0 ? life().at : never; }

	// The parts, which must be there. After the eviction's place comes the end of life.
	Eviction::Entry& queued() { return *reinterpret_cast<Eviction::Entry*>(this + 1); }
	const Expiry::Entry& life() const {
		return *reinterpret_cast<const Expiry::Entry*>(
			reinterpret_cast<const std::byte*>(this + 1) + (parts & evictable));
	}
	Expiry::Entry& life() { return const_cast<Expiry::Entry&>(std::as_const(*this).life()); }
	// The item that has this part. Items that are mortal all have `others` beside it.
	static Item& of(Eviction::Entry& entry) { return reinterpret_cast<Item*>(&entry)[-1]; }
	static Item& of(Expiry::Entry& entry, std::uint8_t others) {
		return reinterpret_cast<Item*>(reinterpret_cast<std::byte*>(&entry) - others)[-1];
	}

	std::byte* key_begin() { return reinterpret_cast<std::byte*>(this + 1) + parts; }
	std::string_view key() const { return {reinterpret_cast<const char*>(this + 1) + parts, key_length}; }
	std::byte* value() { return reinterpret_cast<std::byte*>(this) + value_offset(); }
	Bytes bytes() const { return {reinterpret_cast<const std::byte*>(this) + value_offset(), value_length}; }
};
static_assert(sizeof(Item) == 48);

// A counted handle of one version. The version is freed when neither a Value nor the table refers
// to it. An empty Value has no version; only operator bool may be called.
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
	std::string_view key() const { return item_->key(); }
	Bytes bytes() const { return item_->bytes(); }
	std::uint32_t size() const { return item_->value_length; }
	std::uint64_t version() const { return item_->version; }
	Nanoseconds end() const { return item_->end(); }  // Item::end()
	// Sets this time, before the version is stored; for a version that was taken as Life::limited.
	void end_at(Nanoseconds when) {
		check((item_->parts & Item::mortal) != 0, "a version whose life is limited has room for its end");
		item_->life().at = when;
	}
	// The value's bytes as memory that is registered with this pool, which is the store's or one
	// that shares it. The Buffer holds the version as this Value does.
	channel::Buffer buffer(const channel::MemoryPool& pool) const;

private:
	friend class Store;
	void destroy();
	// Empties this Value without changing the references of its item.
	Item* release() { return std::exchange(item_, nullptr); }
	Item* item_ = nullptr;
};

}  // namespace verbena::kv
