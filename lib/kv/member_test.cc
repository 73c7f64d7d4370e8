// SPDX-License-Identifier: Apache-2.0
// A server that is a member of a cluster.
#include "lib/kv/member.h"

#include <algorithm>
#include <set>

#include "base/boot_time.h"
#include "lib/kv/facts.h"
#include "lib/kv/fixture.h"
#include "lib/kv/placement.h"
#include "lib/kv/wall_clock.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

constexpr std::uint32_t lease_s = 20;
constexpr Nanoseconds s = 1'000'000'000;
const std::string self = "self:1", rival = "rival:1";

class MemberTest : public KvBase {
protected:
	void SetUp() override {
		KvBase::SetUp();
		member_.emplace(*store_, lease_s);
		member_->begin(self);
		changes_ = std::make_unique<Changes>(loop_, *store_, sessions_, nullptr, &*member_);
	}
	// A look at these members, which was made `age` ago.
	void look(std::vector<std::string> names, Nanoseconds age = 0, bool entered = true) {
		std::ranges::sort(names);
		const Nanoseconds asked = boot_now() - age;
		member_->handle_look(
			{.names = std::move(names), .entered = entered, .asked = asked, .lease_s_max = lease_s}, asked);
	}
	// The only member, which has waited and is the owner of all slots.
	void own_all() {
		for (const Nanoseconds age : {30 * s, 17 * s, 4 * s}) look({self}, age);
		member_->handle_time(boot_now());
		EXPECT_EQ(member_->facts().slots, slot_count);
	}
	void drop_all() {
		while (member_->drop_some()) {}
	}
	Client& connect_as_member() { return connect({.of_cluster = true}); }

	Result<void> set(Client& client, std::string_view key) {
		Result<void> result;
		loop_.complete([](Client& client, std::string_view key, Result<void>& result) -> Task<void> {
			const Bytes value = bytes_of("value");
			result = co_await client.set(key, value);
		}(client, key, result));
		return result;
	}
	// The error of a GET; nothing if it finds a value.
	std::optional<Error> get(Client& client, std::string_view key) {
		std::optional<Error> error;
		loop_.complete([](Client& client, std::string_view key, std::optional<Error>& error) -> Task<void> {
			const auto value = co_await client.get(key);
			if (!value) error = value.error();
		}(client, key, error));
		return error;
	}
	// A key that `self` keeps, or loses, when `rival` joins.
	static std::string key_of(const std::string& owner) {
		const std::vector<std::string> both{rival, self};
		for (int i = 0;; ++i)
			if (std::string key = "key" + std::to_string(i); both[owner_of_slot(both, slot_of(key))] == owner)
				return key;
	}

	// The owner of all slots gets two keys, and then loses the slot of `goes`.
	Client& move_one_of_two_keys() {
		Client& client = connect_as_member();
		own_all();
		EXPECT_TRUE(set(client, stays));
		EXPECT_TRUE(set(client, goes));
		look({self, rival});
		return client;
	}

	const std::string stays = key_of(self), goes = key_of(rival);
	std::optional<Member> member_;
};

TEST_F(MemberTest, UntilItMayAnswerGetsMissAndChangesAreRefused) {
	Client& client = connect_as_member();
	look({self});
	EXPECT_EQ(get(client, "key"), Error::missing);
	EXPECT_EQ(set(client, "key").error(), Error::lost) << "a call without a router is not sent again";
	EXPECT_EQ(store_->size(), 0u);
	EXPECT_EQ(counters_.meter.count_of(RequestKind::set, Status::busy), 1u);
}

TEST_F(MemberTest, TheOwnerOfAllSlotsAnswers) {
	Client& client = connect_as_member();
	own_all();
	EXPECT_TRUE(set(client, "key"));
	EXPECT_EQ(get(client, "key"), std::nullopt);
}

TEST_F(MemberTest, KeysOfSlotsThatMoveAreRefusedAndDropped) {
	Client& client = move_one_of_two_keys();
	EXPECT_EQ(get(client, stays), std::nullopt);
	EXPECT_EQ(get(client, goes), Error::lost);
	EXPECT_EQ(set(client, goes).error(), Error::lost);
	EXPECT_EQ(counters_.meter.count_of(RequestKind::get, Status::moved), 1u);
	EXPECT_EQ(counters_.meter.count_of(RequestKind::set, Status::moved), 1u);
	EXPECT_EQ(store_->size(), 2u);
	drop_all();
	EXPECT_EQ(store_->size(), 1u);
	EXPECT_EQ(member_->facts().dropped, 1u);
}

TEST_F(MemberTest, AKeyWhoseSlotComesBackIsMissing) {
	Client& client = connect_as_member();
	own_all();
	EXPECT_TRUE(set(client, goes));
	look({self, rival});
	look({self});
	EXPECT_EQ(get(client, goes), Error::missing);
	drop_all();
	EXPECT_EQ(get(client, goes), Error::missing);
	EXPECT_EQ(store_->size(), 0u);
}

TEST_F(MemberTest, AMemberWhoseEntryIsGoneDropsAllKeys) {
	Client& client = connect_as_member();
	own_all();
	for (int i = 0; i < 3000; ++i) store_->set("key" + std::to_string(i), bytes_of("value"));
	look({rival}, 0, false);
	EXPECT_EQ(get(client, "key1"), Error::lost);
	drop_all();
	EXPECT_EQ(store_->size(), 0u);
}

TEST_F(MemberTest, ARendezvousWhoseSlotMovesMeanwhileStoresNothing) {
	Client& client = connect({.protocol = Protocol::rendezvous, .of_cluster = true});
	own_all();
	std::optional<Result<void>> result;
	const std::string value(100'000, 'v');
	loop_.spawn([](Client& client, std::string_view key, std::string_view value,
					std::optional<Result<void>>& result) -> Task<void> {
		const Bytes bytes = bytes_of(value);
		result = co_await client.set(key, bytes);
	}(client, goes, value, result));
	// The request has arrived, and the server reads the value.
	loop_.run_until([&] { return counters_.requests == 1; });
	ASSERT_FALSE(result);
	look({self, rival});
	loop_.run_until([&] { return result.has_value(); });
	EXPECT_EQ(result->error(), Error::lost);
	EXPECT_EQ(store_->size(), 0u);
}

TEST_F(MemberTest, AVersionIsAboveThoseThatAnEarlierOwnerCanHaveGiven) {
	const std::uint64_t of_rival = wall_now();
	EXPECT_EQ(store_->last_version(), 0u);
	own_all();
	EXPECT_GE(store_->last_version(), of_rival);
}

TEST_F(MemberTest, ScanPassesOnlyKeysForWhichTheServerMayAnswer) {
	Client& client = move_one_of_two_keys();
	std::set<std::string> seen;
	loop_.complete([](Client& client, std::set<std::string>& seen) -> Task<void> {
		ScanRequest request{.keys_max = 1000};
		do {
			const auto answer = co_await client.scan("", request);
			EXPECT_TRUE(answer.has_value());
			if (!answer) co_return;
			const auto page = read_page(answer->bytes());
			for (const std::string_view key : page->keys) seen.emplace(key);
			request.from = page->next;
		} while (request.from != ScanCursor{});
	}(client, seen));
	EXPECT_EQ(seen, std::set<std::string>{stays});
}

TEST_F(MemberTest, AClientThatWasNotGivenTheClusterIsRefusedWithTheReason) {
	own_all();
	Client& client = connect();
	EXPECT_EQ(set(client, "key").error(), Error::member);
	EXPECT_EQ(get(client, "key"), Error::member);
	EXPECT_EQ(counters_.requests, 0u);
}

TEST_F(MemberTest, AClientOfAnEarlierVersionSeesAnotherVersionOfTheProtocol) {
	auto raw = connect_without_greeting();
	loop_.complete([](channel::Channel& raw) -> Task<void> {
		const Hello old;
		const Bytes greeting = bytes_of(old);
		co_await raw.send(greeting);
		const auto answer = co_await raw.receive();
		EXPECT_TRUE(answer && read_hello(answer->bytes(), Hello::from_server).error() == Malformed::version);
		const auto end = co_await raw.receive();
		EXPECT_FALSE(end.has_value());
	}(*raw));
}

}  // namespace
}  // namespace verbena::kv
