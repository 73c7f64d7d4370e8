// LmdbJournal: a journal reopened from its folder, and its limits.
#include "lib/kv/lmdb_journal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

namespace verbena::kv {
namespace {

using Content = std::map<std::string, std::string>;

class LmdbJournalTest : public ::testing::Test {
protected:
	void SetUp() override {
		std::string folder = "/tmp/kv_journal_XXXXXX";
		ASSERT_NE(mkdtemp(folder.data()), nullptr);
		folder_ = folder;
	}
	void TearDown() override { std::filesystem::remove_all(folder_); }

	std::unique_ptr<LmdbJournal> open(std::size_t bytes_max = 64 << 20) const {
		auto opened = LmdbJournal::open(folder_, bytes_max);
		EXPECT_TRUE(opened.has_value()) << opened.error();
		return opened ? std::move(*opened) : nullptr;
	}
	static Content content(LmdbJournal& journal) {
		Content content;
		const auto read = journal.read_all([&](std::string_view key, Bytes value) {
			content[std::string(key)] = text_of(value);
			return true;
		});
		EXPECT_TRUE(read.has_value());
		return content;
	}

	std::string folder_;
};

TEST_F(LmdbJournalTest, AReopenedJournalHasExactlyTheCommittedChanges) {
	const std::string longest(key_max, 'k'), another = std::string(key_max - 1, 'k') + 'l', on_the_edge(510, 'e'),
											 behind_it(511, 'e');
	const std::string large(5'000'000, 'v');
	{
		const auto journal = open();
		for (const std::string& key : {std::string("key"), longest, another, on_the_edge, behind_it})
			journal->set(key, bytes_of("value of it"));
		journal->set("large", bytes_of(large));
		journal->set("empty", Bytes());
		journal->set("gone", bytes_of("value"));
		journal->set("key", bytes_of("another value"));
		journal->remove("gone");
		journal->remove("never there");
		EXPECT_TRUE(journal->commit());
		journal->set("late", bytes_of("value"));
	}
	const Content wanted{{"key", "another value"}, {longest, "value of it"}, {another, "value of it"},
		{on_the_edge, "value of it"}, {behind_it, "value of it"}, {"large", large}, {"empty", ""}};
	EXPECT_EQ(content(*open()), wanted);
}

TEST_F(LmdbJournalTest, KeysOfAnyBytesStayDistinct) {
	const std::string key("a\0version", 9);
	const auto journal = open();
	journal->set(key, bytes_of("one"));
	journal->set("version", bytes_of("two"));
	ASSERT_TRUE(journal->commit());
	EXPECT_EQ(content(*journal), (Content{{key, "one"}, {"version", "two"}}));
}

TEST_F(LmdbJournalTest, ASecondServerCannotOpenTheFolder) {
	const auto journal = open();
	const auto second = LmdbJournal::open(folder_, 64 << 20);
	ASSERT_FALSE(second.has_value());
	EXPECT_NE(second.error().find("in use"), std::string::npos);
}

TEST_F(LmdbJournalTest, ATransactionThatFailsIsDroppedWholeAndTheNextOneMaySucceed) {
	{
		const auto journal = open(1 << 20);
		journal->set("key", bytes_of("value"));
		ASSERT_TRUE(journal->commit());
		journal->set("key", bytes_of("another"));
		journal->set("other", bytes_of(std::string(2 << 20, 'x')));
		journal->set("third", bytes_of("value"));
		EXPECT_FALSE(journal->commit());
		EXPECT_NE(journal->failure().find(folder_), std::string::npos);
		journal->set("fourth", bytes_of("value"));
		EXPECT_TRUE(journal->commit());
		EXPECT_EQ(journal->failure(), "");
	}
	EXPECT_EQ(content(*open()), (Content{{"key", "value"}, {"fourth", "value"}}));
}

TEST_F(LmdbJournalTest, OverwritingAtMostDoublesTheFile) {
	const auto journal = open();
	const std::string value(3000, 'v');
	const auto size = [&] { return std::filesystem::file_size(folder_ + "/data.mdb"); };
	const auto write = [&](int commits) {
		for (int i = 0; i < commits; ++i) {
			for (int j = 0; j < 100; ++j) journal->set("key " + std::to_string(j % 20), bytes_of(value));
			ASSERT_TRUE(journal->commit());
		}
	};
	write(50);
	const auto before = size();
	write(500);
	EXPECT_LE(size(), before * 2);
}

}  // namespace
}  // namespace verbena::kv
