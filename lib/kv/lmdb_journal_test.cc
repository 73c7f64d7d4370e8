// SPDX-License-Identifier: Apache-2.0
// LmdbJournal: a journal reopened from its folder, and its limits.
#include "lib/kv/lmdb_journal.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "lib/kv/lmdb_fixture.h"

namespace verbena::kv {
namespace {

using testing_tools::Content;
using testing_tools::content_of;
using testing_tools::in_table;

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

	std::string folder_;
	std::uint64_t version_ = 0;
};

TEST_F(LmdbJournalTest, AReopenedJournalHasExactlyTheCommittedChanges) {
	const std::string longest(key_max, 'k'), another = std::string(key_max - 1, 'k') + 'l', on_the_edge(510, 'e'),
											 behind_it(511, 'e');
	const std::string large(5'000'000, 'v');
	{
		const auto journal = open();
		for (const std::string& key : {std::string("key"), longest, another, on_the_edge, behind_it})
			journal->set(key, bytes_of("value of it"), {.version = ++version_});
		journal->set("large", bytes_of(large), {.version = ++version_});
		journal->set("empty", Bytes(), {.version = ++version_});
		journal->set("gone", bytes_of("value"), {.version = ++version_});
		journal->set("key", bytes_of("another value"), {.version = ++version_});
		journal->remove("gone", ++version_);
		journal->remove("never there", ++version_);
		EXPECT_TRUE(journal->commit());
		journal->set("late", bytes_of("value"), {.version = ++version_});
	}
	const Content wanted{{"key", "another value"}, {longest, "value of it"}, {another, "value of it"},
		{on_the_edge, "value of it"}, {behind_it, "value of it"}, {"large", large}, {"empty", ""}};
	EXPECT_EQ(content_of(*open()), wanted);
}

TEST_F(LmdbJournalTest, KeysOfAnyBytesStayDistinct) {
	const std::string key("a\0version", 9);
	const auto journal = open();
	journal->set(key, bytes_of("one"), {.version = ++version_});
	journal->set("version", bytes_of("two"), {.version = ++version_});
	ASSERT_TRUE(journal->commit());
	EXPECT_EQ(content_of(*journal), (Content{{key, "one"}, {"version", "two"}}));
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
		journal->set("key", bytes_of("value"), {.version = ++version_});
		ASSERT_TRUE(journal->commit());
		journal->set("key", bytes_of("another"), {.version = ++version_});
		journal->set("other", bytes_of(std::string(2 << 20, 'x')), {.version = ++version_});
		journal->set("third", bytes_of("value"), {.version = ++version_});
		EXPECT_FALSE(journal->commit());
		EXPECT_NE(journal->failure().find(folder_), std::string::npos);
		journal->set("fourth", bytes_of("value"), {.version = ++version_});
		EXPECT_TRUE(journal->commit());
		EXPECT_EQ(journal->failure(), "");
	}
	EXPECT_EQ(content_of(*open()), (Content{{"key", "value"}, {"fourth", "value"}}));
}

TEST_F(LmdbJournalTest, VersionsGoOnBehindTheLastChangeAlsoIfItWasADel) {
	{
		const auto journal = open();
		journal->set("key", bytes_of("value"), {.version = 41});
		journal->remove("key", 42);
		ASSERT_TRUE(journal->commit());
		journal->set("lost", bytes_of("value"), {.version = 43});
	}
	EXPECT_EQ(open()->last_version(), 42u);
}

// Direct access to the table, as by a disk that changes bits.
class DamagedJournal : public LmdbJournalTest {
protected:
	void SetUp() override {
		LmdbJournalTest::SetUp();
		const auto journal = open();
		for (int i = 0; i < 20; ++i)
			journal->set("key" + std::to_string(i), bytes_of("value " + std::to_string(i)), {.version = ++version_});
		journal->set(std::string(600, 'l'), bytes_of(std::string(10'000, 'v')), {.version = ++version_});
		journal->write_note("identity", bytes_of("12345678"));
		ASSERT_TRUE(journal->commit());
	}
	// Passes the content of this record, which may be changed, and then writes it.
	void change(const std::string& name, const std::function<void(std::string&)>& edit) {
		in_table(folder_, [&](MDB_txn* transaction, MDB_dbi table) {
			MDB_val key{name.size(), const_cast<char*>(name.data())}, content;
			ASSERT_EQ(mdb_get(transaction, table, &key, &content), 0) << name;
			std::string bytes(static_cast<char*>(content.mv_data), content.mv_size);
			edit(bytes);
			content = {bytes.size(), bytes.data()};
			ASSERT_EQ(mdb_put(transaction, table, &key, &content, 0), 0);
		});
	}
	// The error of reading the folder, and the number of records that were read before.
	std::pair<std::string, std::size_t> read() const {
		const auto journal = open();
		std::size_t records = 0;
		const auto done = journal->read_all([&](std::string_view, Bytes, const Stamp&) { return ++records > 0; });
		return {done ? "" : done.error(), records};
	}
};

TEST_F(DamagedJournal, AFlippedBitIsNamedAndTheRecordIsNotRead) {
	change(name_of_key("key7"), [](std::string& bytes) { bytes.back() ^= 4; });
	const auto [error, records] = read();
	EXPECT_NE(error.find("1 damaged records: the key key7;"), std::string::npos) << error;
	EXPECT_NE(error.find("--salvage"), std::string::npos) << error;
	EXPECT_EQ(records, 20u);
}

TEST_F(DamagedJournal, ManyDamagedRecordsAreCountedAndSomeAreNamed) {
	for (int i = 0; i < 20; ++i)
		change(name_of_key("key" + std::to_string(i)), [](std::string& bytes) { bytes[10] ^= 1; });
	const std::string error = read().first;
	EXPECT_NE(error.find("20 damaged records: the key key0, "), std::string::npos) << error;
	EXPECT_NE(error.find(", ...;"), std::string::npos) << error;
}

TEST_F(DamagedJournal, ARecordThatIsMissingOrFromAnOlderTimeIsFound) {
	std::string old;
	change(name_of_key("key7"), [&](std::string& bytes) { old = bytes; });
	{
		const auto journal = open();
		journal->set("key7", bytes_of("newer"), {.version = ++version_});
		ASSERT_TRUE(journal->commit());
		EXPECT_EQ(content_of(*journal).at("key7"), "newer");
	}
	change(name_of_key("key7"), [&](std::string& bytes) { bytes = old; });
	EXPECT_NE(read().first.find("of an older time"), std::string::npos) << read().first;

	in_table(folder_, [](MDB_txn* transaction, MDB_dbi table) {
		std::string name = name_of_key("key7");
		MDB_val key{name.size(), name.data()};
		ASSERT_EQ(mdb_del(transaction, table, &key, nullptr), 0);
	});
	EXPECT_NE(read().first.find("records are missing"), std::string::npos) << read().first;
}

TEST_F(DamagedJournal, ADamagedLedgerOrNoteIsFoundToo) {
	for (const std::string_view note : {Ledger::note, std::string_view("identity")}) {
		change(name_of_note(note), [](std::string& bytes) { bytes.back() ^= 1; });
		EXPECT_NE(read().first.find("damaged records: a record of the server"), std::string::npos) << read().first;
		change(name_of_note(note), [](std::string& bytes) { bytes.back() ^= 1; });
		EXPECT_EQ(read().first, "");
	}
}

TEST_F(DamagedJournal, ADamagedRecordOfTheFormatIsRefusedAndSalvaged) {
	const auto refused = [&] {
		const auto opened = LmdbJournal::open(folder_, 64 << 20);
		return !opened && opened.error().find("the record of its format is damaged") != std::string::npos;
	};
	for (const bool is_missing : {false, true}) {
		in_table(folder_, [&](MDB_txn* transaction, MDB_dbi table) {
			MDB_val key{format_name.size(), const_cast<char*>(format_name.data())}, later{1, const_cast<char*>("6")};
			ASSERT_EQ(
				is_missing ? mdb_del(transaction, table, &key, nullptr) : mdb_put(transaction, table, &key, &later, 0),
				0);
		});
		EXPECT_TRUE(refused());
		Salvage salvaged;
		const auto journal = LmdbJournal::open(folder_, 64 << 20, 0, &salvaged).value();
		EXPECT_TRUE(salvaged.losses.empty());
		EXPECT_EQ(salvaged.fault, "the record of its format");
		EXPECT_EQ(content_of(*journal).size(), 21u);
	}
}

TEST_F(DamagedJournal, SalvageDropsWhatIsDamagedOnceAndGivesTheFolderANewIdentity) {
	change(name_of_key("key7"), [](std::string& bytes) { bytes.back() ^= 4; });
	change(name_of_key(std::string(600, 'l')), [](std::string& bytes) { bytes.back() ^= 4; });
	const std::uint64_t last = version_;
	for (const bool first : {true, false}) {
		Salvage salvaged;
		const auto journal = LmdbJournal::open(folder_, 64 << 20, 0, &salvaged);
		ASSERT_TRUE(journal.has_value()) << journal.error();
		const std::vector<std::string> losses{"the key key7 is damaged", "a key of more than 510 bytes is damaged"};
		EXPECT_EQ(salvaged.losses, first ? losses : std::vector<std::string>());
		EXPECT_EQ((*journal)->last_version(), last);
	}
	const auto journal = open();
	EXPECT_EQ(content_of(*journal).size(), 19u);
	ASSERT_TRUE(journal->read_notes([](std::string_view name, Bytes) { EXPECT_EQ(name, Ledger::note); }).has_value());
}

TEST_F(DamagedJournal, SalvageOfASoundFolderChangesNothing) {
	Salvage salvaged;
	const auto journal = LmdbJournal::open(folder_, 64 << 20, 0, &salvaged).value();
	EXPECT_TRUE(salvaged.losses.empty());
	EXPECT_EQ(content_of(*journal).size(), 21u);
	int notes = 0;
	ASSERT_TRUE(journal->read_notes([&](std::string_view, Bytes) { ++notes; }).has_value());
	EXPECT_EQ(notes, 2) << "the ledger and the identity";
}

TEST_F(LmdbJournalTest, AFolderOfFormat1IsRewritten) {
	const std::string long_key(600, 'l'), large(300'000, 'v');
	in_table(folder_, [&](MDB_txn* transaction, MDB_dbi table) {
		const auto put = [&](std::string name, std::string content) {
			MDB_val key{name.size(), name.data()}, value{content.size(), content.data()};
			ASSERT_EQ(mdb_put(transaction, table, &key, &value, 0), 0);
		};
		put("aversion", "1");
		put("aidentity", "12345678");
		put(std::string("as\1\2\3\4\5\6\7\0", 10), "a session");
		for (int i = 0; i < 1000; ++i) put("kkey" + std::to_string(i), "value " + std::to_string(i));
		put("klarge", large);
		put("kempty", "");
		const std::uint32_t length = 600;
		put("l" + std::string(32, '\1'),
			std::string(reinterpret_cast<const char*>(&length), 4) + long_key + "its value");
	});
	for (int i = 0; i < 2; ++i) {
		const auto journal = LmdbJournal::open(folder_, 64 << 20, 500).value();
		const Content read = content_of(*journal);
		EXPECT_EQ(read.size(), 1003u);
		EXPECT_EQ(read.at("key999"), "value 999");
		EXPECT_EQ(read.at("large"), large);
		EXPECT_EQ(read.at("empty"), "");
		EXPECT_EQ(read.at(long_key), "its value");
		EXPECT_EQ(journal->last_version(), 500u + 1003);
		std::map<std::string, std::string> notes;
		ASSERT_TRUE(journal
				->read_notes([&](std::string_view name, Bytes value) {
					if (name != Ledger::note) notes[std::string(name)] = text_of(value);
				})
				.has_value());
		EXPECT_EQ(notes, (Content{{"identity", "12345678"}, {std::string("s\1\2\3\4\5\6\7\0", 9), "a session"}}));
	}
}

TEST_F(LmdbJournalTest, OverwritingAtMostDoublesTheFile) {
	const auto journal = open();
	const std::string value(3000, 'v');
	const auto size = [&] { return std::filesystem::file_size(folder_ + "/data.mdb"); };
	const auto write = [&](int commits) {
		for (int i = 0; i < commits; ++i) {
			for (int j = 0; j < 100; ++j)
				journal->set("key " + std::to_string(j % 20), bytes_of(value), {.version = ++version_});
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
