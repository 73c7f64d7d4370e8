// SPDX-License-Identifier: Apache-2.0
// Store: a hash table of keys and immutable values in memory, with a memory limit.
//
// A SET never changes the bytes of a value: it replaces the value by a new version. The answer to a
// GET that is still being sent, and a lease, hold the version that they began with by a Value, so a
// SET cannot tear it. A version is one block of an arena (state/arena.h), in registered memory, so
// that a peer can access every value by RDMA. The arena moves versions that no Value holds.
//
// With a window, a change is accepted first, and visible later: when it is held, or never, if it is
// dropped (state/window.h).
//
// A version may have an end of life, a monotonic time from which on it counts as missing. Some time
// later expire() takes it out. A store that evicts makes room for a new version by taking out
// others, by S3-FIFO (state/eviction.h). It has no window.
//
// Threads: one, that of the pool's loop.
// Lifetime: every Value, and every Buffer of one, ends before its store; the store dies before its
//   pools.
// Errors: a SET that would exceed `memory_max` fails and changes nothing.
// Invariants:
//   used() counts every version that exists: those in the table, old ones that a Value still holds,
//   and new ones whose bytes have not arrived yet. A version counts by the size of its block, which
//   depends only on the lengths of its key and its value.
//   memory_max limits used() and overhead() together. The arena has an eighth and 4 MiB more: for
//   old versions that Values still hold, and so that every version that the limit allows finds
//   room while some cannot be moved. So the content of one store fits into any other store with
//   the same options.
//   In a full store, a key can be overwritten by a value that is no larger, as long as the arena
//   has room for both. The new version then has a credit: bytes, up to the size of the old version,
//   that the limit does not count until the new version has replaced the old one.
//   get() and the index show what is in the table, and nothing that waits in the window.
//   The index shows a version until 10 ms after its end at most, if expire() runs every 10 ms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "lib/kv/change.h"
#include "lib/kv/index.h"
#include "lib/kv/scan_format.h"
#include "lib/kv/segments.h"
#include "lib/kv/state/arena.h"

namespace verbena::kv {

struct StoreOptions {
	// Bytes of all versions together, of the table, and of what the owner charges to the store.
	std::size_t memory_max = std::size_t{1} << 30;
	// Bytes of the area for one-sided GETs (index.h), in addition to memory_max; 0: there is none.
	std::size_t index_bytes = 0;
	// The most changes in the window, a power of two.
	std::size_t window = 1;
	// A SET that finds no room evicts other keys; then nothing may wait in the window.
	bool evict = false;
};

// Totals since the store was made. `hits` counts GETs that found their key, `refused` calls of
// set() and take() for which there was no memory, `expired` versions that were taken out after
// their end.
struct StoreCounters {
	std::uint64_t sets = 0, gets = 0, hits = 0, removes = 0, refused = 0, evicted = 0, expired = 0;
};

// Hears of each change of a store when it has become visible.
class StoreObserver {
public:
	// `version` is that of the change or, for `evicted`, that which the key had.
	virtual void changed(EventKind kind, std::string_view key, std::uint64_t version) = 0;

protected:
	~StoreObserver() = default;
};

// Whether a version may get an end of life.
enum class Life : bool { endless, limited };

class Store final : private Arena::Holder, private Eviction::Items {
public:
	// `pool` is null where no channel is direct: then the memory is not registered.
	Store(const StoreOptions& options, channel::MemoryPool* pool);
	~Store();
	Store(const Store&) = delete;
	Store& operator=(const Store&) = delete;

	// From now on. The observer outlives the store's last change, and changes nothing itself.
	void observe(StoreObserver& observer) { observer_ = &observer; }

	// Lets peers access all memory of the store through the device of this pool too. Returns false
	// if that is not possible; then nothing has changed.
	bool share(channel::MemoryPool& pool);

	// Returns the current version, or an empty Value if the key is missing or its end is not after
	// `now`.
	Value get(std::string_view key, Nanoseconds now = 0);
	// Stores a copy of the value. Returns false, and changes nothing, if the store is full. The two
	// set() and remove() are visible at once; do not call them while the window has changes.
	bool set(std::string_view key, Bytes value);
	// Returns false if the key is missing.
	bool remove(std::string_view key, Nanoseconds now = 0);
	// Takes out a key that this server may keep no more. Returns false if it is missing.
	bool lose(std::string_view key);
	// Stores what a journal has, with its version and its end.
	bool restore(std::string_view key, Bytes value, std::uint64_t version, Nanoseconds end = never);
	// Each change gets a version, which is above all earlier ones. The next one follows this,
	// unless there is a higher one already.
	std::uint64_t last_version() const { return last_version_; }
	void begin_versions(std::uint64_t after) { last_version_ = std::max(last_version_, after); }

	// Reserves memory for a new version. The caller moves the value's bytes into its buffer(), and
	// then stores it by set(Value), after Value::end_at() if its life is limited. Returns an empty
	// Value if the store is full.
	Value take(std::string_view key, std::size_t size, Life life = Life::endless);
	// The same with these bytes.
	Value take(std::string_view key, Bytes value, Life life = Life::endless);
	// Stores a version that take() has returned; its bytes must not change any more. Returns false
	// if the store is full because the old version, for which this one has a credit, was removed or
	// replaced by a smaller one meanwhile.
	bool set(Value value);
	// After a refusal, true if the same call may soon succeed: the limit allows the version, but
	// values that have Buffers are in its way; or it will fit when the changes in the window are
	// visible; or the keys that could be evicted are in use.
	bool refused_for_now() const { return refused_for_now_; }

	// The newest version of a key: that of the newest change in the window, otherwise get().
	struct Newest {
		Value value;           // empty: the key is missing
		bool waits = false;    // it is not visible yet
	};
	Newest newest(std::string_view key, Nanoseconds now = 0);
	// Accepts a version that take() has returned as the key's newest one. Returns false as set().
	// The window must have room.
	bool accept(Value value, const Ticket& ticket);
	// Accepts that the key loses `value`, which is its newest version.
	void accept_removal(Value value, const Ticket& ticket);
	// Accepts the end of a version that expire() has passed on. Nothing is accepted if a newer
	// change of the key waits.
	void accept_end(Value value);
	// Lets an answer wait until the changes in the window are held.
	void accept_answer(Status status, std::uint64_t version, const Ticket& ticket);
	// The changes before `end` are held: they become visible. `done` gets each afterwards.
	void hold(ChangeWindow::Position end, const std::function<void(const Change&)>& done);
	// The changes from `from` on are not held, and never will be. `undo` gets each, the newest
	// first.
	void drop(ChangeWindow::Position from, const std::function<void(const Change&)>& undo);
	ChangeWindow& window() { return window_; }
	// The bytes of keys and values in the window.
	std::size_t waiting_bytes() const { return waiting_bytes_; }

	// Announces the time.
	void announce(Nanoseconds now);
	// Announces the time, and looks at up to `most` versions whose end has come. `ended` gets each
	// and calls end() or accept_end(). Returns true if there may be more.
	bool expire(Nanoseconds now, std::size_t most, const std::function<void(Value)>& ended);
	// The time at which expire() may find a version, or before it; `never`: no version ends.
	Nanoseconds next_end() const { return std::min(ends_.next(), withdrawals_.next()); }
	// Takes a version that expire() has passed on out of the table.
	void end(const Value& value);

	// The keys published for one-sided GETs. Null without `index_bytes`, without a pool, or if the
	// pool had no memory for the index.
	const Index* index() const { return index_.get(); }
	// Publishes a value in the index, if there is one. Called when a client with one-sided GETs had
	// to ask for the value by message.
	void publish(std::string_view key, const Value& value);

	// SCAN: passes the keys of up to `buckets_max` buckets to `see`, and stops after the bucket in
	// which `see` returns false. Returns where to go on; all zero: every key has been passed. A key
	// that is there from the first step to the last one is passed at least once, whatever changes
	// between the steps. A key whose time to live is over at `now` is not passed. `from` may be any
	// bytes (store_scan.cc).
	ScanCursor scan(const ScanCursor& from, std::size_t buckets_max,
		const std::function<bool(std::string_view key)>& see, Nanoseconds now = 0) const;

	std::size_t size() const { return count_; }  // keys
	std::size_t used() const { return used_; }  // bytes of all versions
	// Bytes that the limit counts beside the versions: the table beyond its first buckets, the
	// ghosts of evicted keys, and what is charged.
	std::size_t overhead() const {
		return (table_.size() + old_.size() - buckets_first) * sizeof(Item*) + (eviction_ ? eviction_->bytes() : 0) +
			charged_;
	}
	// Bytes of the buckets.
	std::size_t table_bytes() const { return (table_.size() + old_.size()) * sizeof(Item*); }
	// Makes the limit count this many bytes of memory that the store's owner uses.
	void charge(std::size_t bytes) { charged_ = bytes; }
	// Counts further bytes until the next charge(), and evicts keys for them if it may. Returns
	// false, and counts nothing, if the store is full.
	bool charge_more(std::size_t bytes);
	// The most bytes of the arena of a store with this limit.
	static constexpr std::size_t arena_bytes(std::size_t memory_max) {
		return memory_max + memory_max / 8 + (std::size_t{4} << 20);
	}
	const Arena& arena() const { return arena_; }
	const StoreOptions& options() const { return options_; }
	const StoreCounters& counters() const { return counters_; }

private:
	friend class Value;
	using Table = std::vector<Item*>;
	static constexpr std::size_t buckets_first = 1024;

	std::uint64_t hash_of(std::string_view key) const;
	Item** bucket_of(std::uint64_t hash);
	Item** find(std::string_view key, std::uint64_t hash);
	bool fits(std::size_t bytes) const {
		return used_ - credit_ + overhead() + bytes + (eviction_ ? Eviction::bytes_more : 0) <= options_.memory_max;
	}
	// Whether this number of bytes would fit if all keys were evicted.
	bool fits_after_evictions(std::size_t bytes) const {
		return eviction_ && bytes + overhead() + Eviction::bytes_more <= options_.memory_max;
	}
	const Change* newest_change(std::string_view key, std::uint64_t hash) const;
	std::size_t newest_cost(std::string_view key, std::uint64_t hash);
	std::optional<std::size_t> credit_for(std::string_view key, std::uint64_t hash, std::size_t cost);
	Value make(std::string_view key, std::size_t size, Life life);
	bool confirm_credit(Item& item);
	// set() of a Value, which is emptied if that succeeds.
	bool enter(Value& value);
	void put(Item* item);
	void take_out(Item** at);
	void show_change(EventKind kind, std::string_view key, std::uint64_t version) {
		if (observer_ != nullptr) observer_->changed(kind, key, version);
	}
	void accept_loss(Change::Kind kind, Value value, const Ticket& ticket);
	void leave_window(const Change& change);
	void destroy(Item* item);
	void grow();
	void migrate(std::size_t buckets);
	static void drop(Table& table);
	Item** link_to(const Item* item, std::uint64_t hash);

	// Eviction and ends of life (store_cache.cc).
	bool evict_one();
	void queue_new(Item& item, Item* present);
	void show(Item& item);
	bool withdraw_in_time(Item& item);

	// Arena::Holder
	bool movable(const std::byte* block) override;
	void moved(std::byte* from, std::byte* to) override;

	// Eviction::Items
	Facts facts_of(Eviction::Entry& entry) override;
	bool stays(Eviction::Entry& entry) override;

	StoreOptions options_;
	Segments segments_;
	Arena arena_;
	std::unique_ptr<Index> index_;
	ChangeWindow window_;
	std::optional<Eviction> eviction_;
	// The ends of versions, and before them the times at which published ones leave the index.
	Expiry ends_{0}, withdrawals_{0};
	// The bytes of keys and values in the window; those that become free when it is applied.
	std::size_t waiting_bytes_ = 0, freeing_ = 0;
	std::uint64_t seed_[2];  // the secret key of hash_of()
	std::uint64_t walk_ = secure_random<std::uint64_t>() | 1;  // ScanCursor::walk
	// While the table grows, each SET moves a few buckets of `old_` to `table_`, so that no single
	// SET takes the time for all. Buckets of `old_` below `migrated_` are empty.
	Table table_, old_;
	std::size_t migrated_ = 0;
	std::size_t count_ = 0;
	std::size_t used_ = 0, credit_ = 0;  // bytes of all versions; sum of their credits
	std::size_t charged_ = 0;
	std::uint64_t last_version_ = 0;
	bool refused_for_now_ = false;
	StoreObserver* observer_ = nullptr;
	StoreCounters counters_;
};

}  // namespace verbena::kv
