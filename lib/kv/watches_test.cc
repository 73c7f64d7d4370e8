// SPDX-License-Identifier: Apache-2.0
// Events: which ones come, when, and to which clients.
#include "lib/kv/watches.h"

#include <deque>

#include "lib/kv/changes_fixture.h"
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;
using Seen = std::vector<std::pair<EventKind, std::string>>;

// Keeps what it hears, and compares it with the content of the store.
struct Listener final : StoreObserver {
	explicit Listener(Store& of) : store(of) { store.observe(*this); }
	void changed(EventKind kind, std::string_view key, std::uint64_t version) override {
		seen.emplace_back(kind, key);
		versions.push_back(version);
		const Value value = store.get(key);
		EXPECT_EQ(static_cast<bool>(value), kind == EventKind::set)
			<< key << ": an event comes when its change is visible";
		EXPECT_TRUE(!value || value.version() == version) << key;
	}
	Store& store;
	Seen seen;
	std::vector<std::uint64_t> versions;
};

TEST(StoreEvents, EachChangeThatIsVisibleHasOne) {
	Store store({}, nullptr);
	Listener listener(store);
	ASSERT_TRUE(store.set("a", Bytes()) && store.set("a", Bytes()) && store.remove("a"));
	EXPECT_FALSE(store.remove("a"));
	Value brief = store.take("b", Bytes(), Life::limited);
	brief.end_at(1000);
	ASSERT_TRUE(store.set(std::move(brief)));
	while (store.expire(1'000'000'000, 10, [&](const Value& value) { store.end(value); })) {}
	ASSERT_TRUE(store.set("c", Bytes()) && store.lose("c"));
	EXPECT_EQ(listener.seen,
		(Seen{{EventKind::set, "a"}, {EventKind::set, "a"}, {EventKind::removed, "a"}, {EventKind::set, "b"},
			{EventKind::expired, "b"}, {EventKind::set, "c"}, {EventKind::evicted, "c"}}));
	EXPECT_EQ(listener.versions, (std::vector<std::uint64_t>{1, 2, 3, 4, 5, 6, 6}));
}

TEST(StoreEvents, AKeyThatIsEvictedHasOne) {
	Store store({.memory_max = 1 << 20, .evict = true}, nullptr);
	Listener listener(store);
	for (int i = 0; i < 20'000; ++i) ASSERT_TRUE(store.set("key " + std::to_string(i), Bytes()));
	const auto evicted =
		std::ranges::count(listener.seen, EventKind::evicted, [](const auto& each) { return each.first; });
	EXPECT_GT(evicted, 0);
	EXPECT_EQ(static_cast<std::uint64_t>(evicted), store.counters().evicted);
	EXPECT_EQ(listener.seen.size(), 20'000u + store.counters().evicted);
}

class JournalEvents : public ChangesTest {};

TEST_F(JournalEvents, ComeWhenTheJournalHasTheChangeAndNotIfItFails) {
	Listener listener(*store_);
	set(1, "a", "1");
	set(2, "a", "2");
	EXPECT_TRUE(listener.seen.empty());
	// Both are visible at once, one after the other.
	changes_->commit();
	EXPECT_EQ(listener.seen, (Seen{{EventKind::set, "a"}, {EventKind::set, "a"}}));
	journal_.fails = true;
	set(3, "a", "3");
	remove(4, "a");
	changes_->commit();
	EXPECT_EQ(listener.seen.size(), 2u);
	journal_.fails = false;
	remove(5, "a");
	changes_->commit();
	EXPECT_EQ(listener.seen.back(), (std::pair<EventKind, std::string>(EventKind::removed, "a")));
	EXPECT_TRUE(std::ranges::is_sorted(listener.versions));
}

// Events over a connection.

struct Sink final : EventSink {
	void take_event(EventKind kind, std::string_view key, std::uint64_t) override { seen.emplace_back(kind, key); }
	void refuse(Error why) override { error = why; }
	Seen seen;
	std::optional<Error> error;
};

class WatchTest : public KvBase {
protected:
	void until(const Sink& sink, std::size_t events) {
		loop_.run_until([&] { return sink.seen.size() >= events; });
	}
	void set(std::string_view key) { ASSERT_TRUE(store_->set(key, Bytes())); }
	static std::vector<std::byte> watch_record(std::uint32_t number, std::string_view text, Scope scope) {
		const WatchRequest request{.scope = scope};
		auto record =
			request_for({.operation = Operation::watch, .number = number, .value_length = sizeof request}, text);
		append(record, bytes_of(request));
		return record;
	}
	// Sends one message with `sets` SETs of this key. Returns the most that the server handles in
	// one turn.
	std::uint64_t most_in_a_turn_of(std::uint64_t sets, std::string_view key) {
		const auto raw = connect_raw();
		std::vector<std::byte> message;
		for (std::uint64_t i = 0; i < sets; ++i) append(message, request_for({.operation = Operation::set}, key));
		counters_.requests = 0;
		loop_.spawn([](channel::Channel& raw, std::vector<std::byte> message) -> Task<void> {
			co_await raw.send(message);
		}(*raw, std::move(message)));
		return most_in_a_turn(sets);
	}
	// Sends these records, and returns why the server has ended the connection.
	std::string refusal_of(std::vector<std::byte> records) {
		auto raw = connect_raw();
		loop_.complete([](channel::Channel& raw, std::vector<std::byte>& records) -> Task<void> {
			const Bytes bytes = records;
			co_await raw.send(bytes);
		}(*raw, records));
		loop_.run_until([&] { return !connections_.back()->why.empty(); });
		return connections_.back()->why;
	}
};

TEST_F(WatchTest, AClientHearsOfItsKeysAloneAndOfNothingBefore) {
	Client &one = connect(), &other = connect();
	set("user:0");
	Sink key, prefix, all;
	one.watch(1, "user:1", Scope::key, key);
	one.watch(2, "user:", Scope::prefix, prefix);
	other.watch(1, "", Scope::prefix, all);
	until(prefix, 1);
	until(all, 1);
	for (const char* const each : {"user:1", "user:11", "job"}) set(each);
	loop_.complete(set_value(one, "user:1", "by the client itself"));
	ASSERT_TRUE(store_->remove("user:1"));
	using enum EventKind;
	const Seen of_key{{look_again, ""}, {EventKind::set, "user:1"}, {EventKind::set, "user:1"}, {removed, "user:1"}};
	const Seen of_prefix{{look_again, ""}, {EventKind::set, "user:1"}, {EventKind::set, "user:11"},
		{EventKind::set, "user:1"}, {removed, "user:1"}};
	until(key, of_key.size());
	until(prefix, of_prefix.size());
	until(all, of_prefix.size() + 1);
	EXPECT_EQ(key.seen, of_key);
	EXPECT_EQ(prefix.seen, of_prefix);
	EXPECT_EQ(watches_->counters().events, 3u + 4 + 5);
}

TEST_F(WatchTest, NothingComesAfterTheEndOfAWatchOrOfItsConnection) {
	Client &one = connect(), &other = connect();
	Sink ended, cut;
	one.watch(1, "", Scope::prefix, ended);
	other.watch(1, "", Scope::prefix, cut);
	until(ended, 1);
	until(cut, 1);
	set("on the way");
	one.unwatch(1);
	loop_.complete(set_value(one, "key", "a round trip"));
	EXPECT_EQ(ended.seen.size(), 1u);
	other.close();
	EXPECT_EQ(watches_->size(), 1u);
	connections_.erase(connections_.begin() + 1);
	EXPECT_EQ(watches_->size(), 0u);
	EXPECT_EQ(watches_->bytes(), 0u);
	set("for nobody");
}

TEST_F(WatchTest, AClientThatDoesNotReadCostsBoundedMemoryAndIsToldToLookAgain) {
	auto raw = connect_raw();
	loop_.complete([](channel::Channel& raw) -> Task<void> {
		const auto record = watch_record(7, "", Scope::prefix);
		const Bytes bytes = record;
		co_await raw.send(bytes);
	}(*raw));
	loop_.run_until([&] { return watches_->size() == 1; });
	for (int i = 0; watches_->counters().lapses == 0; ++i) {
		set("key " + std::to_string(i));
		if (i % 100 == 0) loop_.run_turn();
		ASSERT_LT(i, 10'000'000);
	}
	for (int i = 0; i < 1000; ++i) set("another key");
	EXPECT_EQ(watches_->counters().lapses, 1u) << "a watch that has lapsed is not looked at";
	EXPECT_EQ(watches_->size(), 1u);
	const std::uint64_t before = watches_->counters().events;
	// Now it reads, up to the look-again that stands for the dropped ones.
	std::uint64_t events = 0, looks = 0;
	loop_.complete([](channel::Channel& raw, std::uint64_t& events, std::uint64_t& looks) -> Task<void> {
		while (looks < 2) {
			auto message = co_await raw.receive();
			EXPECT_TRUE(message.has_value());
			if (!message) co_return;
			for (Answers answers(message->bytes()); !answers.done();) {
				const auto answer = answers.next();
				EXPECT_TRUE(answer.has_value() && answer->header.number == 7);
				++(answer->header.event == EventKind::look_again ? looks : events);
			}
		}
	}(*raw, events, looks));
	EXPECT_EQ(events, before);
	EXPECT_EQ(watches_->counters().lapses, 1u);
	set("later");
	EXPECT_EQ(watches_->counters().events, before + 1) << "events come again";
}

// One change of a key that a thousand clients watch 256 times held the loop for seconds.
TEST_F(WatchTest, AChangeWithMoreEventsThanATurnHasRoomForLetsTheOtherWatchesLookAgain) {
	constexpr std::uint32_t clients = 12;
	const std::string key(3000, 'k');
	std::deque<Sink> sinks;
	for (std::uint32_t i = 0; i < clients; ++i) {
		Client& client = connect();
		for (std::uint32_t number = 1; number <= watches_max; ++number)
			client.watch(number, "", Scope::prefix, sinks.emplace_back());
	}
	const auto until_each_has = [&](std::size_t events) {
		loop_.run_until(
			[&] { return std::ranges::all_of(sinks, [&](const Sink& each) { return each.seen.size() >= events; }); });
	};
	until_each_has(1);
	set(key);
	const WatchCounters& counters = watches_->counters();
	EXPECT_GT(counters.lapses, 0u);
	EXPECT_EQ(counters.events + counters.lapses, sinks.size());
	EXPECT_GT(counters.events * key.size(), Watches::turn_bytes_max / 2);
	EXPECT_LE(counters.events * key.size(), Watches::turn_bytes_max);
	until_each_has(2);
	const auto looks =
		std::ranges::count(sinks, EventKind::look_again, [](const Sink& each) { return each.seen[1].first; });
	EXPECT_EQ(static_cast<std::uint64_t>(looks), counters.lapses) << "in the next turn, although nothing else happens";
	set("short");
	until_each_has(3);
	for (const Sink& each : sinks)
		EXPECT_EQ(each.seen[2], (std::pair<EventKind, std::string>(EventKind::set, "short")));
}

// One message of 4,000 SETs of a long key held the loop for a minute.
TEST_F(WatchTest, AMessageOfChangesWhoseWatchesTakeLongToFindLetsOthersHaveTheirTurns) {
	const std::string key(key_max, 'a');
	Sink sink;
	Client& client = connect();
	for (std::uint32_t i = 0; i < watches_max; ++i)
		client.watch(i + 1, key.substr(0, 16 * i) + '\0', Scope::prefix, sink);
	until(sink, watches_max);
	// The search looks at 257 nodes, which counts as 8 records.
	EXPECT_EQ(watches_->work_of(key), 8u);
	EXPECT_LE(most_in_a_turn_of(1000, key), 4096 / 9 + 1);
	EXPECT_EQ(sink.seen.size(), watches_max) << "no watch has the key";
}

TEST_F(WatchTest, AMessageOfChangesThatHaveManyEventsLetsOthersHaveTheirTurns) {
	// 64 clients, so that the events of none of them fill its channel, and no watch lapses.
	constexpr std::uint32_t clients = 64, watches = 4;
	Sink sink;
	for (std::uint32_t i = 0; i < clients; ++i) {
		Client& client = connect();
		for (std::uint32_t number = 1; number <= watches; ++number) client.watch(number, "", Scope::prefix, sink);
	}
	until(sink, clients * watches);
	EXPECT_EQ(watches_->work_of("key"), clients * watches * (24 + 3) / 256);
	EXPECT_LE(most_in_a_turn_of(290, "key"), 4096 / 28 + 1);
	EXPECT_EQ(watches_->counters().lapses, 0u);
}

// 1,024 clients with 256 texts of 4 KiB each took 1.2 GB from a server with any --memory.
TEST_F(WatchTest, AStoreThatIsFullRefusesFurtherWatchesWhichThenHaveNoEvents) {
	open({.memory_max = 1 << 20}, {});
	Client& client = connect();
	std::deque<Sink> sinks;
	for (std::uint32_t number = 1; number <= watches_max; ++number)
		client.watch(
			number, std::string(key_max - 1, 'k') + static_cast<char>(number), Scope::prefix, sinks.emplace_back());
	loop_.run_until([&] { return sinks.back().error.has_value(); });
	const auto refused = static_cast<std::size_t>(
		std::ranges::count(sinks, std::optional(Error::full), [](const Sink& each) { return each.error; }));
	EXPECT_EQ(store_->counters().refused, refused);
	EXPECT_EQ(watches_->size(), watches_max - refused);
	EXPECT_LE(watches_->bytes(), std::size_t{1} << 20);
	EXPECT_GE(watches_->bytes(), (std::size_t{1} << 20) * 8 / 10);
	EXPECT_FALSE(store_->set("key", std::vector<std::byte>(64 << 10))) << "values share the memory";
	EXPECT_FALSE(client.watches(watches_max));
	// Room for one: the first watch ends, and another one begins.
	client.unwatch(1);
	loop_.complete(set_value(client, "k", "a round trip"));
	store_->charge(watches_->bytes());
	Sink& later = sinks.emplace_back();
	client.watch(watches_max + 1, "k", Scope::key, later);
	until(later, 1);
	set("k");
	until(later, 2);
	EXPECT_TRUE(sinks[watches_max - 1].seen.empty());
}

TEST_F(WatchTest, ACacheThatIsFullEvictsKeysForAWatch) {
	open({.memory_max = 1 << 20, .evict = true}, {});
	for (int i = 0; store_->counters().evicted == 0; ++i) set("key " + std::to_string(i));
	const std::uint64_t evicted = store_->counters().evicted;
	Sink sink;
	connect().watch(1, std::string(key_max, 'k'), Scope::key, sink);
	until(sink, 1);
	EXPECT_EQ(sink.seen.front().first, EventKind::look_again);
	EXPECT_GT(store_->counters().evicted, evicted);
}

TEST_F(WatchTest, ACacheWhoseClientsHoldItsMemoryEvictsNothingForAWatchThatHasNoRoom) {
	open({.memory_max = 1 << 20, .evict = true}, {});
	for (int i = 0; i < 100; ++i) set("key " + std::to_string(i));
	store_->charge(1 << 20);
	Sink sink;
	connect().watch(1, "key", Scope::prefix, sink);
	loop_.run_until([&] { return sink.error.has_value(); });
	EXPECT_EQ(sink.error, Error::full);
	EXPECT_EQ(store_->size(), 100u);
}

TEST_F(WatchTest, AClientThatBreaksTheRulesLosesItsConnection) {
	std::vector<std::byte> records;
	for (std::uint32_t i = 0; i < watches_max + 1; ++i)
		for (const std::byte each : watch_record(i, "key", Scope::key)) records.push_back(each);
	EXPECT_NE(refusal_of(records).find("out of place"), std::string::npos) << "too many watches";
	records = watch_record(1, "key", Scope::key);
	append(records, watch_record(1, "other", Scope::key));
	EXPECT_NE(refusal_of(records).find("out of place"), std::string::npos) << "a number twice";
	EXPECT_NE(refusal_of(watch_record(1, "", Scope::key)).find("impossible"), std::string::npos) << "no key";
	EXPECT_NE(refusal_of(watch_record(1, "key", Scope{9})).find("impossible"), std::string::npos);
	connections_.clear();
	EXPECT_EQ(watches_->size(), 0u);
}

}  // namespace
}  // namespace verbena::kv
