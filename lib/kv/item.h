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
#include "lib/kv/wire.h"

namespace verbena::kv {

class Store;

// In memory the key follows the Item, and the value follows the key. A long value begins at a cache
// line, because copies of other bytes take longer.
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

	// Where a value of this length begins, in bytes from the Item on. A block that has room for a
	// long one is aligned to a cache line.
	static constexpr std::size_t value_offset(std::size_t key_length, std::size_t value_length) {
		const std::size_t end_of_key = sizeof(Item) + key_length;
		return value_length < aligned_from ? end_of_key : (end_of_key + alignment - 1) / alignment * alignment;
	}

	// The bytes behind the Item: the key, then the value.
	std::byte* tail() { return reinterpret_cast<std::byte*>(this + 1); }
	const std::byte* tail() const { return reinterpret_cast<const std::byte*>(this + 1); }
	std::string_view key() const { return {reinterpret_cast<const char*>(tail()), key_length}; }
	std::byte* value() { return reinterpret_cast<std::byte*>(this) + value_offset(key_length, value_length); }
	Bytes bytes() const {
		return {reinterpret_cast<const std::byte*>(this) + value_offset(key_length, value_length), value_length};
	}
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
	// The value's bytes as registered memory, which a peer can access by RDMA. The Buffer holds the
	// version as this Value does. Not for a store without a pool.
	channel::Buffer buffer() const;

private:
	friend class Store;
	void destroy();
	// Empties this Value without changing the references of its item.
	Item* release() { return std::exchange(item_, nullptr); }
	Item* item_ = nullptr;
};

}  // namespace verbena::kv
