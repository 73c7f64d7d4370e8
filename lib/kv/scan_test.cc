// SPDX-License-Identifier: Apache-2.0
// SCAN: nothing that is there throughout is missed while the table grows and changes, and each step
// is bounded.
#include <algorithm>
#include <map>
#include <set>

#include "base/random.h"
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

std::string key_of(std::uint64_t number) { return "key " + std::to_string(number); }

// Walks over the store with steps of this many buckets, and calls `between` after each. Returns how
// often each key came.
template <class Between> std::map<std::string, int> walk(Store& store, std::size_t buckets, Between between) {
	std::map<std::string, int> seen;
	ScanCursor at;
	do {
		at = store.scan(at, buckets, [&](std::string_view key) {
			++seen[std::string(key)];
			return true;
		});
		between();
	} while (at != ScanCursor{});
	return seen;
}

TEST(StoreScan, EachKeyComesOnceIfNothingChanges) {
	for (const std::uint64_t keys : {0u, 1u, 1023u, 1024u, 1500u, 5000u}) {
		Store store({}, nullptr);
		for (std::uint64_t i = 0; i < keys; ++i) ASSERT_TRUE(store.set(key_of(i), Bytes()));
		const auto seen = walk(store, 7, [] {});
		EXPECT_EQ(seen.size(), keys);
		for (const auto& [key, times] : seen) EXPECT_EQ(times, 1) << key;
	}
}

TEST(StoreScan, AKeyWhoseTimeIsOverDoesNotCome) {
	Store store({}, nullptr);
	Value brief = store.take("brief", Bytes(), Life::limited);
	ASSERT_TRUE(brief);
	brief.end_at(1000);
	ASSERT_TRUE(store.set(std::move(brief)));
	ASSERT_TRUE(store.set("lasting", Bytes()));
	for (const Nanoseconds now : {Nanoseconds{999}, Nanoseconds{1000}}) {
		std::set<std::string> seen;
		const auto see = [&](std::string_view key) { return seen.emplace(key), true; };
		EXPECT_EQ(store.scan({}, 1'000'000, see, now), ScanCursor{});
		EXPECT_EQ(seen.contains("brief"), now < 1000) << now;
		EXPECT_TRUE(seen.contains("lasting"));
	}
}

TEST(StoreScan, KeysThatStayAreNotMissedWhileTheTableGrows) {
	for (const std::size_t buckets : {1u, 3u, 50u, 1000u}) {
		Store store({}, nullptr);
		constexpr std::uint64_t stay = 900;
		for (std::uint64_t i = 0; i < stay; ++i) ASSERT_TRUE(store.set(key_of(i), Bytes()));
		std::uint64_t next = stay;
		const std::size_t before = store.table_bytes();
		const auto seen = walk(store, buckets, [&] {
			for (std::size_t i = 0; i < 10 * buckets && next < 40'000; ++i)
				ASSERT_TRUE(store.set(key_of(next++), Bytes()));
		});
		EXPECT_GT(store.table_bytes(), before);
		for (std::uint64_t i = 0; i < stay; ++i) EXPECT_TRUE(seen.contains(key_of(i))) << i;
	}
}

TEST(StoreScan, KeysThatStayAreNotMissedUnderAnyChange) {
	for (std::uint64_t seed = 1; seed <= 20; ++seed) {
		Random random(seed);
		Store store({}, nullptr);
		const std::uint64_t stay = 1 + random.below(3000);
		for (std::uint64_t i = 0; i < stay; ++i) ASSERT_TRUE(store.set(key_of(i), Bytes()));
		const std::size_t buckets = 1 + random.below(100);
		const auto seen = walk(store, buckets, [&] {
			for (std::uint64_t changes = random.below(4 * buckets); changes > 0; --changes) {
				const std::uint64_t number = random.below(30'000);
				if (number >= stay && random.below(3) == 0) store.remove(key_of(number));
				else ASSERT_TRUE(store.set(key_of(number), bytes_of("value")));
			}
		});
		for (std::uint64_t i = 0; i < stay; ++i) EXPECT_TRUE(seen.contains(key_of(i))) << seed << ": " << i;
	}
}

TEST(StoreScan, AStepEndsAfterItsBucketsAndWhenThePageIsFull) {
	Store store({}, nullptr);
	for (std::uint64_t i = 0; i < 100'000; ++i) ASSERT_TRUE(store.set(key_of(i), Bytes()));
	std::size_t keys = 0;
	const auto count = [&](std::string_view) { return ++keys < 50; };
	ScanCursor at = store.scan({}, 100, [&](std::string_view) { return ++keys, true; });
	EXPECT_NE(at, ScanCursor{});
	EXPECT_LT(keys, 1000u);
	keys = 0;
	at = store.scan(at, 1'000'000, count);
	EXPECT_NE(at, ScanCursor{});
	EXPECT_GE(keys, 50u);
	EXPECT_LT(keys, 100u);
}

TEST(StoreScan, ACursorOfAnotherProcessBeginsAgain) {
	Store first({}, nullptr), second({}, nullptr);
	for (std::uint64_t i = 0; i < 2000; ++i) {
		ASSERT_TRUE(first.set(key_of(i), Bytes()));
		ASSERT_TRUE(second.set(key_of(i), Bytes()));
	}
	ScanCursor at = first.scan({}, 500, [](std::string_view) { return true; });
	std::set<std::string> seen;
	do {
		at = second.scan(at, 500, [&](std::string_view key) {
			seen.emplace(key);
			return true;
		});
	} while (at != ScanCursor{});
	EXPECT_EQ(seen.size(), 2000u);
}

TEST(StoreScan, AnyBytesAreACursor) {
	Store store({}, nullptr);
	for (std::uint64_t i = 0; i < 3000; ++i) ASSERT_TRUE(store.set(key_of(i), Bytes()));
	const ScanCursor good = store.scan({}, 1, [](std::string_view) { return true; });
	Random random(5);
	for (int i = 0; i < 1000; ++i) {
		ScanCursor at{.walk = random.below(2) == 0 ? good.walk : random(), .position = random()};
		for (int steps = 0; steps < 10'000 && (steps == 0 || at != ScanCursor{}); ++steps)
			at = store.scan(at, 4096, [](std::string_view) { return true; });
		EXPECT_EQ(at, ScanCursor{});
	}
}

// A client's walk by its connection alone.
Task<void> collect(Client& client, std::string prefix, std::uint32_t keys_max, std::multiset<std::string>& keys,
	std::vector<std::size_t>& pages) {
	ScanRequest request{.keys_max = keys_max};
	do {
		auto answer = co_await client.scan(prefix, request);
		EXPECT_TRUE(answer.has_value());
		if (!answer) co_return;
		const auto page = read_page(answer->bytes());
		for (const std::string_view key : page->keys) keys.emplace(key);
		pages.push_back(page->keys.size());
		request.from = page->next;
	} while (request.from != ScanCursor{});
}

class KvScan : public KvBase {};

TEST_F(KvScan, AClientGetsAllKeysWithItsPrefixInBoundedPages) {
	for (std::uint64_t i = 0; i < 5000; ++i) ASSERT_TRUE(store_->set(key_of(i), Bytes()));
	for (std::uint64_t i = 0; i < 30; ++i) ASSERT_TRUE(store_->set("other " + key_of(i), bytes_of("value")));
	ASSERT_TRUE(store_->set(std::string(4096, 'k'), Bytes()));
	Client& client = connect();
	for (const auto& [prefix, wanted] : std::map<std::string, std::size_t>{
			 {"", 5031}, {"key ", 5000}, {"other ", 30}, {"none", 0}, {std::string(4096, 'k'), 1}}) {
		std::multiset<std::string> keys;
		std::vector<std::size_t> pages;
		loop_.complete(collect(client, prefix, 100, keys, pages));
		EXPECT_EQ(keys.size(), wanted) << prefix.substr(0, 10);
		EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), wanted);
		for (const std::string& key : keys) EXPECT_TRUE(key.starts_with(prefix));
		EXPECT_LT(std::ranges::max(pages), 150u);
		EXPECT_LT(pages.size(), 120u);
	}
}

TEST_F(KvScan, LongKeysMakeShortPages) {
	for (std::uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(store_->set(std::string(4000, 'k') + key_of(i), Bytes()));
	Client& client = connect();
	std::multiset<std::string> keys;
	std::vector<std::size_t> pages;
	loop_.complete(collect(client, "", 1000, keys, pages));
	EXPECT_EQ(keys.size(), 500u);
	EXPECT_LT(std::ranges::max(pages), 20u);
}

TEST_F(KvScan, APrefixThatIsTooLongIsRefused) {
	Client& client = connect();
	loop_.complete([](Client& client) -> Task<void> {
		const std::string prefix(4097, 'k');
		const ScanRequest request;
		auto refused = co_await client.scan(prefix, request);
		EXPECT_EQ(refused.error(), Error::long_key);
	}(client));
}

// The answers to many requests for pages share turns with other clients.
TEST_F(KvScan, ManyScansHoldUpNoOtherClient) {
	for (std::uint64_t i = 0; i < 2000; ++i) ASSERT_TRUE(store_->set(key_of(i), Bytes()));
	const auto raw = connect_raw();
	constexpr std::uint64_t records = 200;
	std::vector<std::byte> message;
	const ScanRequest request{.keys_max = 10};
	for (std::uint64_t i = 0; i < records; ++i) {
		append(message, request_for({.operation = Operation::scan, .value_length = sizeof request}, ""));
		append(message, bytes_of(request));
	}
	loop_.spawn([](channel::Channel& raw, std::vector<std::byte> message) -> Task<void> {
		co_await raw.send(message);
		while (co_await raw.receive()) {}
	}(*raw, std::move(message)));
	EXPECT_LE(most_in_a_turn(records), 2 * 16u);
	EXPECT_EQ(counters_.malformed, 0u);
}

}  // namespace
}  // namespace verbena::kv
