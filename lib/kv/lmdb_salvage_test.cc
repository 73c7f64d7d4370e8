// SPDX-License-Identifier: Apache-2.0
// salvage() takes present records from a damaged file, never older ones.
#include "lib/kv/lmdb_salvage.h"

#include <gmock/gmock.h>

#include "lib/kv/lmdb_fixture.h"
#include "lib/kv/lmdb_survivors.h"

namespace verbena::kv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using testing_tools::Content;
using testing_tools::content_of;

class LmdbSalvage : public testing_tools::JournalFile {
protected:
	// Salvages the file after a change of its bytes, and returns what the journal then has.
	Content salvage_after(const std::function<void(std::string&)>& change) {
		edit(change);
		damaged_ = bytes();
		const auto journal = open(&salvaged_, versions_after_);
		if (journal == nullptr) return {};
		last_version_ = journal->last_version();
		has_identity_ = false;
		EXPECT_TRUE(journal->read_notes([&](std::string_view name, Bytes) { has_identity_ |= name == identity_note; }));
		Content content = content_of(*journal);
		// The new file can be changed.
		for (int i = 0; i < keys; i += 7) journal->set(key(i), bytes_of("after"), {.version = last_version_ + 1});
		EXPECT_TRUE(journal->commit());
		return content;
	}
	void expect_all(const Content& content) const {
		EXPECT_TRUE(content == content_);
		EXPECT_THAT(salvaged_.losses, IsEmpty());
		EXPECT_EQ(salvaged_.kept, path_ + ".damaged-1");
		EXPECT_NE(salvaged_.fault, "");
		EXPECT_TRUE(has_identity_) << "clients go on";
		EXPECT_EQ(last_version_, version_);
	}
	// All records are present ones, and this is their least number.
	void expect_some(const Content& content, std::size_t at_least) const {
		EXPECT_GE(content.size(), at_least);
		EXPECT_LT(content.size(), content_.size());
		for (const auto& [key, value] : content) {
			ASSERT_TRUE(content_.contains(key)) << key.substr(0, 4);
			EXPECT_TRUE(content_.at(key) == value) << key.substr(0, 4);
		}
		EXPECT_FALSE(has_identity_) << "no client may repeat a change that may be lost";
		EXPECT_EQ(last_version_, versions_after_);
		EXPECT_TRUE(std::filesystem::exists(salvaged_.kept));
	}

	Salvage salvaged_;
	std::string damaged_;
	std::uint64_t last_version_ = 0, versions_after_ = 1'000'000;
	bool has_identity_ = false;
};

TEST_F(LmdbSalvage, ASoundFileStays) {
	const std::string before = bytes();
	EXPECT_TRUE(content_of(*open(&salvaged_, versions_after_)) == content_);
	EXPECT_THAT(salvaged_.losses, IsEmpty());
	EXPECT_EQ(salvaged_.kept, "");
	EXPECT_TRUE(bytes() == before);
	EXPECT_EQ(open()->last_version(), version_);
}

TEST_F(LmdbSalvage, AnEmptyFolderIsSound) {
	std::filesystem::remove(path_);
	EXPECT_NE(open(&salvaged_), nullptr);
	EXPECT_NE(open(&salvaged_), nullptr) << "with the first transaction alone";
	EXPECT_EQ(salvaged_.kept, "");
}

TEST_F(LmdbSalvage, ABrokenBranchLosesNothing) {
	expect_all(salvage_after([](std::string& whole) {
		const auto page = branch(whole, 1);
		whole.replace(place_of(page), page_bytes, page_bytes, '\x55');
	}));
	EXPECT_THAT(salvaged_.fault, HasSubstr("page"));
}

TEST_F(LmdbSalvage, ABrokenRootLosesNothing) {
	expect_all(salvage_after([](std::string& whole) { whole[place_of(root(whole)) + 12] ^= 2; }));
}

TEST_F(LmdbSalvage, ADamagedNumberInTheHeaderLosesNothing) {
	const std::string whole = bytes();
	const std::vector<std::function<void(lmdb::Meta&)>> damages{[](lmdb::Meta& meta) { meta.table.root ^= 3; },
		[](lmdb::Meta& meta) { meta.table.depth = 1; }, [](lmdb::Meta& meta) { ++meta.table.entries; },
		[](lmdb::Meta& meta) { meta.free.root ^= 8; }, [](lmdb::Meta& meta) { meta.last_page /= 2; },
		[](lmdb::Meta& meta) { meta.magic ^= 1; }, [](lmdb::Meta& meta) { meta.free.unused ^= 1; },
		[](lmdb::Meta& meta) { meta.transaction ^= 1; }, [](lmdb::Meta& meta) { meta.transaction ^= 2; },
		[](lmdb::Meta& meta) { meta.transaction ^= 1 << 20; }};
	for (const auto& damage : damages) {
		SCOPED_TRACE(&damage - damages.data());
		std::filesystem::remove(path_ + ".damaged-1");
		write(whole);
		expect_all(salvage_after([&](std::string& bytes) { edit_meta(bytes, damage); }));
	}
}

TEST_F(LmdbSalvage, AnOlderHeaderWithAGreaterNumberBringsNothingBack) {
	expect_all(salvage_after([](std::string& whole) {
		const auto older = 1 - newer_header(whole);
		auto meta = at<lmdb::Meta>(whole, meta_at(older));
		meta.transaction += 2;
		put(whole, meta_at(older), meta);
	}));
}

TEST_F(LmdbSalvage, AHeaderThatLeadsToTheTransactionBeforeBringsNothingBack) {
	expect_all(salvage_after([](std::string& whole) {
		const auto older = at<lmdb::Meta>(whole, meta_at(1 - newer_header(whole)));
		edit_meta(whole, [&](lmdb::Meta& meta) { meta.table = older.table; });
	}));
}

TEST_F(LmdbSalvage, ABranchThatLeadsToAnOlderPageBringsNothingBack) {
	expect_all(salvage_after([](std::string& whole) {
		const auto older = at<lmdb::Meta>(whole, meta_at(1 - newer_header(whole)));
		const auto old_branch = page_at(whole, older.table.root, lmdb::Kind::branch).node(0).child;
		ASSERT_NE(old_branch, branch(whole, 0));
		put(whole, node_at(whole, root(whole), 0), static_cast<std::uint16_t>(old_branch));
	}));
}

TEST_F(LmdbSalvage, ADamagedListOfFreePagesLosesNothing) {
	expect_all(salvage_after([](std::string& whole) {
		whole.replace(place_of(newer_meta(whole).free.root), page_bytes, page_bytes, '\0');
	}));
}

TEST_F(LmdbSalvage, ADamagedLeafLosesItsRecordsAlone) {
	const auto content = salvage_after([](std::string& whole) { whole[place_of(leaf(whole, 1, 1)) + 12] ^= 4; });
	expect_some(content, content_.size() - 8);
	EXPECT_THAT(salvaged_.losses, ElementsAre("1 pages could not be read"));
}

TEST_F(LmdbSalvage, ADamagedKeyLosesItsRecordAlone) {
	for (const char letter : {'\0', 'z'}) {
		const std::string whole = bytes();
		const Content content = salvage_after([&](std::string& bytes) {
			const auto page = leaf(bytes, 1, 1);
			const std::size_t last = page_at(bytes, page, lmdb::Kind::leaf).size() - 1;
			bytes[node_at(bytes, page, letter == 'z' ? last : 1) + 8 + 2] = letter;
		});
		expect_some(content, content_.size() - 1);
		EXPECT_THAT(salvaged_.losses, ElementsAre(HasSubstr("is damaged")));
		write(whole);
	}
}

TEST_F(LmdbSalvage, ADamagedHeaderOfARunLosesNothing) {
	expect_all(salvage_after([](std::string& whole) { whole[place_of(run(whole)) + 1] ^= 1; }));
}

TEST_F(LmdbSalvage, ADamagedNumberOrKindOfALeafLosesNothing) {
	const std::string whole = bytes();
	for (const std::size_t byte : {0, 10}) {
		std::filesystem::remove(path_ + ".damaged-1");
		write(whole);
		expect_all(salvage_after([&](std::string& bytes) { bytes[place_of(leaf(bytes, 1, 1)) + byte] ^= 4; }));
	}
}

TEST_F(LmdbSalvage, AnOlderLeafInThePlaceOfTheOnlyOneBringsNothingBack) {
	std::filesystem::remove(path_);
	for (const std::string value : {"older", "newer"}) {
		const auto journal = open();
		journal->set("key", bytes_of(value), {.version = ++version_});
		ASSERT_TRUE(journal->commit());
	}
	edit([](std::string& whole) {
		const auto older = at<lmdb::Meta>(whole, meta_at(1 - newer_header(whole)));
		ASSERT_EQ(older.table.depth, 1u);
		whole.replace(place_of(root(whole)), page_bytes, whole, place_of(older.table.root), page_bytes);
	});
	const auto opened = LmdbJournal::open(folder_, 64 << 20, 0, &salvaged_);
	ASSERT_FALSE(opened.has_value());
	EXPECT_THAT(opened.error(), HasSubstr("no record of it can be read"));
}

TEST_F(LmdbSalvage, ADamagedRunLosesItsValueAlone) {
	const Content content =
		salvage_after([](std::string& whole) { std::memset(whole.data() + place_of(run(whole)), 0, page_bytes); });
	expect_some(content, content_.size() - 1);
	EXPECT_THAT(salvaged_.losses, SizeIs(::testing::Ge(1u)));
}

TEST_F(LmdbSalvage, ADamagedValueLosesItselfAlone) {
	const Content content = salvage_after([](std::string& whole) { whole[whole.rfind("value 77")] ^= 1; });
	expect_some(content, content_.size() - 1);
	EXPECT_EQ(salvaged_.fault, "") << "the structure is right";
}

TEST_F(LmdbSalvage, WithADamagedLeafAndADamagedListOfFreePagesTheFileStays) {
	edit([](std::string& whole) {
		whole[place_of(leaf(whole, 1, 1)) + 10] = 1;
		whole[place_of(newer_meta(whole).free.root)] ^= 1;
	});
	const std::string before = bytes();
	const auto opened = LmdbJournal::open(folder_, 64 << 20, 0, &salvaged_);
	ASSERT_FALSE(opened.has_value());
	EXPECT_THAT(opened.error(), HasSubstr("cannot be salvaged"));
	EXPECT_THAT(opened.error(), HasSubstr("restore the folder from a copy"));
	EXPECT_TRUE(bytes() == before);
	EXPECT_FALSE(std::filesystem::exists(path_ + ".damaged-1"));
}

TEST_F(LmdbSalvage, TheDamagedFileIsKeptUnderANameOfItsOwn) {
	const std::string whole = bytes();
	for (const std::string number : {"1", "2", "3"}) {
		write(whole);
		salvage_after([&](std::string& bytes) { bytes[place_of(leaf(bytes, 0, 1))] ^= 64; });
		EXPECT_EQ(salvaged_.kept, path_ + ".damaged-" + number);
		std::ifstream kept(salvaged_.kept, std::ios::binary);
		EXPECT_TRUE(std::string(std::istreambuf_iterator<char>(kept), {}) == damaged_);
	}
}

TEST_F(LmdbSalvage, ASalvageThatWasInterruptedBeginsAgain) {
	edit([](std::string& whole) { whole[place_of(root(whole))] ^= 1; });
	std::ofstream(path_ + ".new") << "a part of a file";
	std::filesystem::create_hard_link(path_, path_ + ".damaged-1");
	expect_all(salvage_after([](std::string&) {}));
	EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
	EXPECT_FALSE(std::filesystem::exists(path_ + ".damaged-2"));
}

TEST_F(LmdbSalvage, AFileOfFormat1WithADamagedStructureStays) {
	std::filesystem::remove(path_);
	open();
	testing_tools::in_table(folder_, [](MDB_txn* transaction, MDB_dbi table) {
		ASSERT_EQ(mdb_drop(transaction, table, 0), 0);
		char name[] = "aversion", format[] = "1", key[] = "kkey", value[] = "value";
		MDB_val version_name{8, name}, version{1, format}, key_name{4, key}, content{5, value};
		ASSERT_EQ(mdb_put(transaction, table, &version_name, &version, 0), 0);
		ASSERT_EQ(mdb_put(transaction, table, &key_name, &content, 0), 0);
	});

	const std::string whole = bytes();
	edit([](std::string& bytes) { edit_meta(bytes, [](lmdb::Meta& meta) { ++meta.table.entries; }); });
	const auto refused = LmdbJournal::open(folder_, 64 << 20, 0, &salvaged_);
	ASSERT_FALSE(refused.has_value());
	EXPECT_THAT(refused.error(), HasSubstr("no checksums"));
	write(whole);
	EXPECT_EQ(content_of(*open(&salvaged_)), (Content{{"key", "value"}}));
	EXPECT_EQ(salvaged_.kept, "");
}

// Every bit of the first 16 bytes of every page, and of the headers' content: no record is old, and
// only the damage of leaves and runs loses some.
TEST_F(LmdbSalvage, AFlippedBitBringsNothingBack) {
	const std::string whole = bytes();
	Content records;
	lmdb::for_each_record(*lmdb::File::open(path_), *lmdb::find_survivors(*lmdb::File::open(path_)),
		[&](std::string_view name, std::string_view content, const Record&) { records[std::string(name)] = content; });
	ASSERT_EQ(records.size(), content_.size() + 1) << "the identity";
	std::size_t refused = 0, partial = 0, bits = 0;
	const auto try_byte = [&](std::size_t offset) {
		for (int bit = 0; bit < 8; ++bit, ++bits) {
			write_at(offset, static_cast<char>(whole[offset] ^ 1 << bit));
			const auto file = lmdb::File::open(path_);
			const auto survivors = lmdb::find_survivors(*file);
			if (!survivors) {
				++refused;
				continue;
			}
			std::size_t found = 0;
			lmdb::for_each_record(
				*file, *survivors, [&](std::string_view name, std::string_view content, const Record&) {
					const auto present = records.find(std::string(name));
					EXPECT_TRUE(present != records.end() && present->second == content)
						<< offset << " " << name.substr(0, 5);
					++found;
				});
			EXPECT_EQ(survivors->are_all(), found == records.size()) << offset;
			if (found < records.size()) ++partial;
			EXPECT_GE(found + 20, records.size()) << offset;
		}
		write_at(offset, whole[offset]);
	};
	for (std::size_t page = 0; page < whole.size(); page += page_bytes)
		for (std::size_t byte = 0; byte < sizeof(lmdb::PageHeader); ++byte) try_byte(page + byte);
	for (std::size_t header = 0; header < 2; ++header)
		for (std::size_t byte = 0; byte < sizeof(lmdb::Meta); ++byte) try_byte(meta_at(header) + byte);
	EXPECT_EQ(refused, 0u);
	EXPECT_GT(partial, 0u);
	EXPECT_LT(partial, bits / 2);
}

}  // namespace
}  // namespace verbena::kv
