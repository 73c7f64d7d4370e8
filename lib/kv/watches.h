// SPDX-License-Identifier: Apache-2.0
// Watches: the watches of all clients of a server. WatchesOfClient: those of one of them, and the
// events that it gets.
//
// An event leaves when the change is visible, so a GET that follows it returns this version or a
// later one. Events of one key come in the order of their versions. A client that does not read has
// a bounded number of bytes waiting, and all clients together get a bounded number of bytes in one
// turn of the loop. A watch whose event does not fit lapses: it gets no further ones, and costs
// changes nothing, until the next turn or until the client reads again. Then it gets look_again.
//
// Threads: one, that of the store's loop.
// Lifetime: a WatchesOfClient dies before its Watches and its outbox, and the Watches after the
//   last change of the store.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "lib/async/loop.h"
#include "lib/kv/outbox.h"
#include "lib/kv/running.h"
#include "lib/kv/state/watch_index.h"
#include "lib/kv/store.h"

namespace verbena::kv {

// Totals of all clients.
struct WatchCounters {
	std::uint64_t events = 0;  // sent, without EventKind::look_again
	std::uint64_t lapses = 0;  // times that a watch has lapsed
};

class Watches final : public StoreObserver, private async::TurnEnd {
public:
	// The bytes of the events of one turn of the loop, to all clients: room for the event of a
	// short key to each of watches_max watches of five hundred clients.
	static constexpr std::size_t turn_bytes_max = 4 << 20;

	Watches(async::Loop& loop, Store& store) : loop_(loop), store_(store) { store.observe(*this); }
	Watches(const Watches&) = delete;
	Watches& operator=(const Watches&) = delete;

	// The work of a change of this key for its watches, as the number of records that take about as
	// long to handle (server.cc).
	std::size_t work_of(std::string_view key) const {
		if (index_.empty()) return 0;
		const WatchIndex::Cost cost = index_.cost_of(key);
		return cost.nodes / nodes_a_record + cost.watches * (event_head + key.size()) / event_bytes_a_record;
	}
	// The same for the begin of a watch.
	static std::size_t work_of_begin(std::string_view text) { return text.size() / nodes_a_record; }

	std::size_t size() const { return size_; }  // with those that have lapsed
	std::size_t bytes() const { return bytes_; }  // memory, about
	const WatchCounters& counters() const { return counters_; }

	// StoreObserver
	void changed(EventKind kind, std::string_view key, std::uint64_t version) override;

private:
	friend class WatchesOfClient;
	static constexpr std::size_t event_head = sizeof(AnswerHeader) + sizeof(std::uint64_t);
	// A record takes about a microsecond.
	static constexpr std::size_t nodes_a_record = 32, event_bytes_a_record = 256;

	bool turn_is_full() const { return turn_bytes_ >= turn_bytes_max; }
	// Counts the bytes of one more event. Returns false if the turn has no room for it.
	bool takes(std::size_t bytes);
	// TurnEnd
	void turn_ends() override { turn_bytes_ = 0; }

	async::Loop& loop_;
	Store& store_;
	WatchIndex index_;  // those that have lapsed are paused
	std::size_t turn_bytes_ = 0;  // the bytes of the events of this turn
	std::size_t size_ = 0, bytes_ = 0;
	WatchCounters counters_;
};

class WatchesOfClient {
public:
	// The bytes that may wait for a client before its events are dropped: while the channel has
	// room, those of one turn of the loop; otherwise fewer.
	static constexpr std::size_t waiting_max = 1 << 20, waiting_max_blocked = 64 << 10;

	WatchesOfClient(Watches& all, Outbox& outbox) : all_(all), outbox_(outbox) {}
	~WatchesOfClient();
	WatchesOfClient(const WatchesOfClient&) = delete;
	WatchesOfClient& operator=(const WatchesOfClient&) = delete;

	// Begins a watch, whose first event leaves at once: look_again, or refused if the store has no
	// room for the watch. Returns false if there is a watch with this number, or there are
	// watches_max of them.
	bool begin(std::uint32_t number, std::string_view text, Scope scope);
	// Ends it; a number without a watch is allowed.
	void end(std::uint32_t number);
	// Watches::work_of().
	std::size_t work_of(std::string_view key) const { return all_.work_of(key); }

private:
	friend class Running;
	friend class Watches;
	struct Watch : WatchIndex::Watch {
		WatchesOfClient* owner = nullptr;
		std::uint32_t number = 0;
		bool lapsed = false;
	};

	static std::size_t bytes_of(std::size_t text_length);
	void greet(Watch& watch) { send(watch, EventKind::look_again, {}, 0); }
	void send(Watch& watch, EventKind kind, std::string_view key, std::uint64_t version);
	void put(std::uint32_t number, EventKind kind, std::string_view key, std::uint64_t version);
	Running wake_lapsed();

	Watches& all_;
	Outbox& outbox_;
	std::unordered_map<std::uint32_t, Watch> watches_;  // by number; does not move them
	bool waking_ = false;  // wake_lapsed() runs
	Coroutines coroutines_;
};

}  // namespace verbena::kv
