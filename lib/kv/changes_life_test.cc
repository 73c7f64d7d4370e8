// SPDX-License-Identifier: Apache-2.0
// Versions with an end of life, with a journal and without: from its end on a version counts as
// missing, whatever asks for it.
#include "lib/kv/changes_fixture.h"
#include "lib/kv/fixture.h"
#include "lib/kv/wall_clock.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

constexpr std::uint32_t day_ms = 86'400'000;

// Each test runs without a journal too.
class ChangesLife : public ChangesTest, public ::testing::WithParamInterface<bool> {
protected:
	void SetUp() override {
		ChangesTest::SetUp();
		if (!GetParam()) changes_.emplace(loop_, *store_, sessions_, nullptr);
	}
};
INSTANTIATE_TEST_SUITE_P(
	Ways, ChangesLife, ::testing::Bool(), [](const auto& info) { return info.param ? "Journal" : "NoJournal"; });

TEST_P(ChangesLife, AKeyThatHasEndedIsMissingForGetDelAndCas) {
	set_for(1, "key", "one", 2);
	changes_->commit();
	ASSERT_EQ(answers_.to(1), Status::good);
	const std::uint64_t version = answers_.versions[1];
	set_for(2, "other", "one", day_ms);
	let_pass(3 * ms);
	EXPECT_EQ(get("key"), "(missing)");
	EXPECT_EQ(get("other"), "one");
	remove(3, "key");
	EXPECT_EQ(answers_.to(3), Status::missing);
	set_if(4, "key", "two", version);
	EXPECT_EQ(answers_.to(4), Status::changed);
	EXPECT_EQ(answers_.versions[4], 0u) << "it is missing";
	remove_if(5, "key", version);
	EXPECT_EQ(answers_.to(5), Status::changed);
	set_if(6, "key", "two", 0);
	changes_->commit();
	EXPECT_EQ(answers_.to(6), Status::good);
	EXPECT_GT(answers_.versions[6], version);
	EXPECT_EQ(get("key"), "two");
}

TEST_P(ChangesLife, AnEndIsAChangeThatTakesTheKeyOut) {
	set_for(1, "key", "one", 2);
	set(2, "endless", "one");
	changes_->commit();
	const std::uint64_t before = store_->last_version();
	end_lives_until([&] { return store_->size() == 1; });
	EXPECT_EQ(store_->counters().expired, 1u);
	EXPECT_EQ(store_->last_version(), before + 1);
	EXPECT_EQ(journal_.content.size(), GetParam() ? 1u : 0u);
}

TEST_P(ChangesLife, ASetWithoutALifeMakesTheKeyEndless) {
	set_for(1, "key", "one", 2);
	set(2, "key", "two");
	changes_->commit();
	let_pass(25 * ms);
	while (changes_->expire()) {}
	changes_->commit();
	EXPECT_EQ(get("key"), "two");
}

TEST_P(ChangesLife, ACasCanGiveALife) {
	set_if(1, "key", "one", 0);
	changes_->commit();
	set_for(2, "key", "two", 2, answers_.versions[1]);
	changes_->commit();
	ASSERT_EQ(answers_.to(2), Status::good);
	let_pass(3 * ms);
	EXPECT_EQ(get("key"), "(missing)");
}

TEST_F(ChangesTest, TheJournalGetsTheEndByTheWallClock) {
	const Nanoseconds before = wall_now();
	set_for(1, "key", "one", day_ms);
	set(2, "endless", "one");
	changes_->commit();
	const Nanoseconds day = Nanoseconds{day_ms} * 1'000'000;
	EXPECT_GE(journal_.expires.at("key") + 1'000'000'000, before + day);
	EXPECT_LE(journal_.expires.at("key"), wall_now() + day);
	EXPECT_EQ(journal_.expires.at("endless"), 0u);
	const Nanoseconds now = loop_.now(), back = monotonic_time_of(journal_.expires.at("key"), now);
	EXPECT_LE(back, now + day);
	EXPECT_GT(back, now + day - 60'000'000'000);
	EXPECT_EQ(monotonic_time_of(1, now), now) << "it has ended long ago";
	EXPECT_EQ(monotonic_time_of(0, now), never);
}

TEST_F(ChangesTest, AnEndThatTheDiskRefusesIsTriedAgainAndTheKeyStaysMissing) {
	set_for(1, "key", "one", 2);
	changes_->commit();
	journal_.fails = true;
	end_lives_until([&, before = journal_.commits] { return journal_.commits > before; });
	EXPECT_EQ(store_->size(), 1u);
	EXPECT_EQ(get("key"), "(missing)");
	EXPECT_EQ(journal_.content.size(), 1u);
	journal_.fails = false;
	end_lives_until([&] { return store_->size() == 0; });
	EXPECT_TRUE(journal_.content.empty());
	EXPECT_EQ(store_->used(), 0u);
}

TEST_F(ChangesTest, AnEndDoesNotOvertakeASetOfTheKeyThatWaits) {
	set_for(1, "key", "one", 2);
	changes_->commit();
	let_pass(25 * ms);
	set(2, "key", "two");
	while (changes_->expire()) {}
	changes_->commit();
	EXPECT_EQ(get("key"), "two");
	EXPECT_EQ(store_->counters().expired, 0u);
	set_for(3, "key", "three", 2);
	changes_->commit();
	let_pass(25 * ms);
	journal_.fails = true;
	set(4, "key", "four");
	while (changes_->expire()) {}
	changes_->commit();
	EXPECT_EQ(answers_.to(4), Status::disk);
	journal_.fails = false;
	end_lives_until([&] { return store_->size() == 0; });
	EXPECT_EQ(store_->counters().expired, 1u);
}

TEST_F(ChangesTest, ManyEndsWithAJournalAreSeveralTransactionsOfWhichNoneIsLong) {
	open(std::size_t{1} << 30, 4096);
	constexpr std::uint32_t count = 5000;
	for (std::uint32_t i = 0; i < count; ++i) set_for(i, "key" + std::to_string(i), "value", 2);
	changes_->commit();
	const int commits = journal_.commits;
	while (store_->size() > 0) {
		const std::size_t before = store_->size();
		let_pass(ms);
		changes_->expire();
		changes_->commit();
		EXPECT_LE(before - store_->size(), Changes::expired_at_once);
	}
	EXPECT_TRUE(journal_.content.empty());
	EXPECT_GE(journal_.commits - commits, static_cast<int>(count / Changes::expired_at_once));
}

// Over a connection, by each way in which a value travels.

struct LifeWay {
	Protocol protocol;
	Form form;
	const char* name;
};
class KvLife : public KvBase, public ::testing::WithParamInterface<LifeWay> {};
INSTANTIATE_TEST_SUITE_P(Ways, KvLife,
	::testing::Values(LifeWay{Protocol::eager, Form::read, "Eager"},
		LifeWay{Protocol::rendezvous, Form::read, "RendezvousByRead"},
		LifeWay{Protocol::rendezvous, Form::write, "RendezvousByWrite"}),
	[](const auto& info) { return info.param.name; });

TEST_P(KvLife, ASetWithATimeToLiveEndsAndOneWithoutDoesNot) {
	Client& client = connect({.protocol = GetParam().protocol, .form = GetParam().form});
	loop_.complete([](async::Loop& loop, Client& client) -> Task<void> {
		const std::string value = pattern(5000, 1);
		const Bytes bytes = bytes_of(value);
		Call brief = client.set("brief", bytes, {.ttl_ms = 1}), day = client.set("day", bytes, {.ttl_ms = day_ms});
		const auto first = co_await brief;
		EXPECT_TRUE(first.has_value());
		const auto second = co_await day;
		EXPECT_TRUE(second.has_value());
		co_await set_value(client, "endless", value);
		const Nanoseconds until = monotonic_now() + 2'000'000;
		while (loop.now() < until) co_await async::NextTurn(loop);
		auto missing = co_await client.get("brief");
		EXPECT_EQ(missing.error(), Error::missing);
		co_await expect_value(client, "day", value);
		co_await expect_value(client, "endless", value);
	}(loop_, client));
	EXPECT_EQ(store_->newest("endless").value.end(), never);
	const Nanoseconds left = store_->newest("day").value.end() - loop_.now();
	EXPECT_LE(left, Nanoseconds{day_ms} * 1'000'000);
	EXPECT_GT(left, Nanoseconds{day_ms} * 999'000);
}

}  // namespace
}  // namespace verbena::kv
