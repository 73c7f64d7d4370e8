// SPDX-License-Identifier: Apache-2.0
// Changes with a journal: they are visible and answered when the journal has them, and undone when
// it fails.
#include "base/random.h"
#include "lib/kv/changes_fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

TEST_F(ChangesTest, AChangeIsNeitherVisibleNorAnsweredBeforeTheJournalHasIt) {
	set(1, "key", "one");
	changes_->commit();
	set(2, "key", "two");
	remove(3, "key");
	set(4, "other", "value");
	EXPECT_EQ(get("key"), "one");
	EXPECT_EQ(get("other"), "(missing)");
	EXPECT_EQ(answers_.by_number.size(), 1u);
	journal_.before_commit = [&] { EXPECT_EQ(get("key"), "one") << "a GET during the commit"; };
	changes_->commit();
	EXPECT_EQ(get("key"), "(missing)");
	EXPECT_EQ(get("other"), "value");
	for (const std::uint32_t number : {1, 2, 3, 4}) EXPECT_EQ(answers_.to(number), Status::good);
}

TEST_F(ChangesTest, TheTurnsEndCommits) {
	loop_.post([&] { set(1, "key", "one"); });
	loop_.run_until([&] { return answers_.to(1).has_value(); });
	EXPECT_EQ(get("key"), "one");
	EXPECT_EQ(journal_.commits, 1);
}

TEST_F(ChangesTest, WhatTheDiskRefusesIsUndoneAndTheNextTurnTriesAgain) {
	set(1, "key", "one");
	changes_->commit();
	const std::size_t used = store_->used();
	journal_.fails = true;
	set(2, "key", "two");
	set(3, "key", "three");
	remove(4, "key");
	set(5, "other", "value");
	changes_->commit();
	for (const std::uint32_t number : {2, 3, 4, 5}) EXPECT_EQ(answers_.to(number), Status::disk);
	EXPECT_EQ(get("key"), "one");
	EXPECT_EQ(get("other"), "(missing)");
	EXPECT_EQ(store_->used(), used);
	journal_.fails = false;
	set(6, "key", "four");
	changes_->commit();
	EXPECT_EQ(answers_.to(6), Status::good);
	EXPECT_EQ(journal_.content.at("key"), "four");
}

TEST_F(ChangesTest, AnAnswerThatDependsOnAWaitingChangeWaitsForIt) {
	set(1, "key", "one");
	changes_->commit();
	remove(2, "key");
	remove(3, "key");
	remove(4, "never there");
	EXPECT_EQ(answers_.to(4), Status::missing) << "it depends on nothing that waits";
	EXPECT_EQ(answers_.to(3), std::nullopt);
	changes_->commit();
	EXPECT_EQ(answers_.to(2), Status::good);
	EXPECT_EQ(answers_.to(3), Status::missing);
	set(5, "key", "two");
	changes_->commit();
	remove(6, "key");
	remove(7, "key");
	journal_.fails = true;
	changes_->commit();
	EXPECT_EQ(answers_.to(7), Status::disk) << "the key is there: its removal was undone";
	EXPECT_EQ(get("key"), "two");
}

TEST_F(ChangesTest, ACopyOfAChangeThatWaitsIsExecutedOnceAndAnsweredWithIt) {
	set(1, "key", "one", 1);
	set(2, "key", "one", 1);
	EXPECT_EQ(store_->window().size(), 2u);
	EXPECT_EQ(answers_.to(2), std::nullopt);
	changes_->commit();
	EXPECT_EQ(answers_.to(1), Status::good);
	EXPECT_EQ(answers_.to(2), Status::good);
	EXPECT_EQ(changes_->repeated(), 1u);
	set(3, "key", "one", 1);
	EXPECT_EQ(answers_.to(3), Status::good) << "nothing waits, so the answer is known";
	EXPECT_EQ(store_->counters().sets, 1u);
}

TEST_F(ChangesTest, AChangeThatTheDiskRefusedIsExecutedWhenItArrivesAgain) {
	journal_.fails = true;
	set(1, "key", "one", 1);
	set(2, "key", "two", 2);
	set(3, "key", "one", 1);
	changes_->commit();
	for (const std::uint32_t number : {1, 2, 3}) EXPECT_EQ(answers_.to(number), Status::disk);
	journal_.fails = false;
	set(4, "key", "two", 2);
	changes_->commit();
	EXPECT_EQ(get("key"), "two");
	EXPECT_EQ(changes_->repeated(), 1u);
}

TEST_F(ChangesTest, AConditionIsJudgedAgainstTheNewestVersionAlsoIfItWaits) {
	set_if(1, "key", "one", 0);
	changes_->commit();
	const std::uint64_t first = answers_.versions[1];
	EXPECT_EQ(store_->get("key").version(), first);
	EXPECT_EQ(get("key"), "one");
	set_if(2, "key", "two", first);
	set_if(3, "key", "three", first);
	EXPECT_EQ(answers_.to(3), std::nullopt) << "it depends on a change that waits";
	set_if(4, "other", "value", first);
	EXPECT_EQ(answers_.to(4), Status::changed) << "it depends on none";
	EXPECT_EQ(answers_.versions[4], 0u);
	changes_->commit();
	const std::uint64_t second = answers_.versions[2];
	EXPECT_EQ(answers_.to(2), Status::good);
	EXPECT_GT(second, first);
	EXPECT_EQ(answers_.to(3), Status::changed);
	EXPECT_EQ(answers_.versions[3], second);
	EXPECT_EQ(get("key"), "two");
	remove_if(5, "key", first);
	EXPECT_EQ(answers_.to(5), Status::changed);
	remove_if(6, "key", second);
	set_if(7, "key", "four", 0);
	changes_->commit();
	EXPECT_EQ(answers_.to(6), Status::good);
	EXPECT_EQ(answers_.to(7), Status::good);
	EXPECT_GT(answers_.versions[7], answers_.versions[6]) << "versions grow over a DEL";
	EXPECT_EQ(get("key"), "four");
}

TEST_F(ChangesTest, AConditionThatFailedAgainstARefusedChangeIsAnsweredWithDisk) {
	set_if(1, "key", "one", 0);
	set_if(2, "key", "two", 0);
	journal_.fails = true;
	changes_->commit();
	EXPECT_EQ(answers_.to(1), Status::disk);
	EXPECT_EQ(answers_.to(2), Status::disk);
	EXPECT_EQ(get("key"), "(missing)");
}

TEST_F(ChangesTest, WithoutAJournalAConditionIsJudgedAndAnsweredAtOnce) {
	changes_.emplace(loop_, *store_, sessions_, nullptr);
	set_if(1, "key", "one", 5);
	EXPECT_EQ(answers_.to(1), Status::changed);
	set_if(2, "key", "one", 0);
	EXPECT_EQ(answers_.to(2), Status::good);
	EXPECT_EQ(answers_.versions[2], store_->get("key").version());
	remove_if(3, "key", answers_.versions[2]);
	EXPECT_EQ(answers_.to(3), Status::good);
	set(4, "key", "two");
	EXPECT_EQ(answers_.versions[4], any_version) << "the request did not ask for it";
}

TEST_F(ChangesTest, AnAskerThatIsGoneHearsNothingAndItsChangeGoesOn) {
	{
		KeptAnswers gone;
		changes_->set({.asker = gone, .number = 1}, "key", bytes_of("one"));
		changes_->forget(gone);
	}
	changes_->commit();
	EXPECT_EQ(get("key"), "one");
}

TEST_F(ChangesTest, AFullWindowIsWrittenBeforeTheTurnEnds) {
	for (std::uint32_t i = 0; i < 65; ++i) set(i, "key" + std::to_string(i), "value");
	EXPECT_EQ(journal_.commits, 1);
	EXPECT_EQ(store_->window().size(), 1u);
	const std::string large(Changes::waiting_bytes_max, 'x');
	set(100, "large", large);
	EXPECT_EQ(journal_.commits, 2);
	EXPECT_TRUE(store_->window().empty());
	EXPECT_EQ(store_->waiting_bytes(), 0u);
}

TEST_F(ChangesTest, AKeyOfAFullStoreIsOverwrittenAsOftenAsWantedInOneTurn) {
	open(std::size_t{1} << 20);
	const std::string value(100'000, 'x');
	std::uint32_t taken = 0;
	do set(taken, "key" + std::to_string(taken), value);
	while (changes_->commit(), answers_.to(taken++) == Status::good);
	EXPECT_EQ(answers_.to(taken - 1), Status::full);
	for (std::uint32_t i = 100; i < 110; ++i) set(i, "key0", std::string(100'000, static_cast<char>('a' + i % 10)));
	changes_->commit();
	for (std::uint32_t i = 100; i < 110; ++i) EXPECT_EQ(answers_.to(i), Status::good);
	EXPECT_LE(store_->used(), std::size_t{1} << 20);
	EXPECT_EQ(get("key0").front(), 'j');
}

TEST_F(ChangesTest, ASetThatWillFitOnceADelIsVisibleIsBusyAndNotFull) {
	open(std::size_t{1} << 20);
	const std::string value(400'000, 'x');
	set(1, "one", value);
	set(2, "two", value);
	set(3, "three", value);
	changes_->commit();
	EXPECT_EQ(answers_.to(3), Status::full);
	remove(4, "one");
	set(5, "three", value);
	EXPECT_EQ(answers_.to(5), Status::busy);
	set(6, "three", std::string(900'000, 'x'));
	EXPECT_EQ(answers_.to(6), Status::full);
	changes_->commit();
	set(7, "three", value);
	changes_->commit();
	EXPECT_EQ(answers_.to(7), Status::good);
}

// The store and the journal are compared with maps after each step. Some commits fail.
TEST_F(ChangesTest, RandomStepsAgreeWithAModelInWhichFailedTurnsNeverWere) {
	for (std::uint64_t seed = 1; seed <= 20; ++seed) {
		open(100'000, 4096);
		journal_.content.clear();
		journal_.next.clear();
		journal_.last_version = 0;
		answers_.by_number.clear();
		Random random(seed);
		std::map<std::string, std::string> visible, newest;
		std::map<std::uint32_t, Status> waiting;  // the answers to requests in the window
		for (std::uint32_t step = 0; step < 2000; ++step) {
			const std::string key = "key" + std::to_string(random.below(12));
			const std::string value(random.below(30'000), static_cast<char>('a' + step % 26));
			const std::uint64_t chosen = random.below(20);
			journal_.fails = random.chance(0.3);
			if (chosen < 8) {
				set(step, key, value);
				if (const auto at_once = answers_.to(step)) {
					ASSERT_TRUE(at_once == Status::full || at_once == Status::busy);
				} else {
					newest[key] = value;
					waiting[step] = Status::good;
				}
			} else if (chosen < 14) {
				remove(step, key);
				if (newest.erase(key) > 0) waiting[step] = Status::good;
				else if (!answers_.to(step)) waiting[step] = Status::missing;
				else ASSERT_EQ(answers_.to(step), Status::missing);
			}
			if (chosen == 19 && !waiting.empty()) {
				changes_->commit();
				(journal_.fails ? newest : visible) = journal_.fails ? visible : newest;
				for (const auto& [number, status] : waiting)
					ASSERT_EQ(answers_.to(number), journal_.fails ? Status::disk : status);
				waiting.clear();
				ASSERT_EQ(journal_.content, visible);
			}
			for (int i = 0; i < 12; ++i) {
				const std::string each = "key" + std::to_string(i);
				const auto found = visible.find(each);
				ASSERT_EQ(get(each), found == visible.end() ? "(missing)" : found->second) << "seed " << seed;
			}
		}
		changes_->commit();
		journal_.fails = false;
		for (std::uint32_t i = 0; i < 12; ++i) remove(10'000 + i, "key" + std::to_string(i));
		changes_->commit();
		ASSERT_EQ(store_->used(), 0u);
	}
}

}  // namespace
}  // namespace verbena::kv
