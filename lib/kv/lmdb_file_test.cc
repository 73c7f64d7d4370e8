// SPDX-License-Identifier: Apache-2.0
// The check of LMDB's file: sound files have no fault, and each kind of damage is found.
#include "lib/kv/lmdb_file.h"

#include <gmock/gmock.h>

#include <random>

#include "lib/kv/lmdb_fixture.h"
#include "lib/kv/lmdb_survivors.h"

namespace verbena::kv::lmdb {
namespace {

using ::testing::HasSubstr;
using testing_tools::Content;
using testing_tools::content_of;

class LmdbFile : public testing_tools::JournalFile {
protected:
	std::string fault() const {
		const auto file = File::open(path_);
		EXPECT_TRUE(file.has_value()) << file.error();
		const auto found = check(*file);
		return found ? found->text() : "";
	}
	// The fault after a change of the file's bytes.
	std::string fault_after(const std::function<void(std::string&)>& change) const {
		edit(change);
		return fault();
	}
	static std::string at_page(PageNumber page) { return "page " + std::to_string(page) + ":"; }
};

TEST_F(LmdbFile, ASoundFileHasNoFault) {
	EXPECT_EQ(fault(), "");
	const std::string whole = bytes();
	EXPECT_EQ(newer_meta(whole).table.depth, 3u) << "the tests need a tree of three levels";
	EXPECT_GT(free_pages().size(), 4u) << "the tests need free pages";
	EXPECT_NE(run(whole), 0u);
}

TEST_F(LmdbFile, AnEmptyAndAMissingFileHaveNoFault) {
	write("");
	EXPECT_EQ(fault(), "");
	std::filesystem::remove(path_);
	EXPECT_EQ(fault(), "");
}

TEST_F(LmdbFile, AFileWithTheFirstTransactionAndAnEmptyOneHaveNoFault) {
	for (const bool has_records : {true, false}) {
		std::filesystem::remove(path_);
		{
			const auto journal = open();
			if (has_records) journal->set("key", bytes_of("value"), {.version = 1});
			ASSERT_TRUE(journal->commit());
		}
		EXPECT_EQ(fault(), "");
	}
}

TEST_F(LmdbFile, NoFaultIsFoundInFilesOfRandomChanges) {
	std::mt19937 luck(1);
	const auto below = [&](unsigned limit) { return std::uniform_int_distribution<unsigned>(0, limit - 1)(luck); };
	const auto journal = open();
	for (int commit = 0; commit < 100; ++commit) {
		for (unsigned change = below(60); change > 0; --change) {
			const std::string name = std::to_string(below(400)) + std::string(below(4) == 0 ? below(500) : 8, 'n');
			if (below(3) == 0) remove(*journal, name);
			else set(*journal, name, std::string(below(10) == 0 ? below(40'000) : below(300), 'v'));
		}
		ASSERT_TRUE(journal->commit());
		ASSERT_EQ(fault(), "") << commit;
	}
	EXPECT_TRUE(content_of(*journal) == content_);
}

TEST_F(LmdbFile, ADamagedFileIsRefusedByOneSentence) {
	const PageNumber page = root(bytes());
	edit([&](std::string& whole) { whole[place_of(page)] ^= 1; });
	const auto opened = LmdbJournal::open(folder_, 64 << 20);
	ASSERT_FALSE(opened.has_value());
	EXPECT_EQ(opened.error(),
		path_ + " is damaged at " + at_page(page) + " it has the number of page " + std::to_string(page ^ 1) +
			"; restore the folder from a copy, or lose what is damaged by --salvage");
}

TEST_F(LmdbFile, PageNumberOfAnotherPage) {
	const PageNumber page = leaf(bytes(), 1, 2);
	EXPECT_EQ(fault_after([&](std::string& whole) { put(whole, place_of(page), page + 8); }),
		at_page(page) + " it has the number of page " + std::to_string(page + 8));
}

TEST_F(LmdbFile, KindOfAnotherPage) {
	const PageNumber page = branch(bytes(), 1);
	EXPECT_EQ(fault_after([&](std::string& whole) { whole[place_of(page) + 10] = 2; }),
		at_page(page) + " it is no branch page");
}

TEST_F(LmdbFile, BoundsOfTheFreeSpace) {
	const std::string whole = bytes();
	const PageNumber page = leaf(whole, 1, 2);
	for (const std::size_t offset : {12, 14})
		for (const std::uint16_t bound : {0, 14, 17, 4098, 65535}) {
			write(whole);
			EXPECT_THAT(fault_after([&](std::string& bytes) { put(bytes, place_of(page) + offset, bound); }),
				HasSubstr(at_page(page)));
		}
}

TEST_F(LmdbFile, APlaceOfANodeOutsideOfItsPage) {
	const PageNumber page = leaf(bytes(), 1, 2);
	EXPECT_EQ(fault_after([&](std::string& whole) { put<std::uint16_t>(whole, place_of(page) + 16, 4094); }),
		at_page(page) + " the places of its nodes are wrong");
}

TEST_F(LmdbFile, NodesThatOverlap) {
	const PageNumber page = branch(bytes(), 0);
	EXPECT_EQ(fault_after([&](std::string& whole) {
		put(whole, place_of(page) + 16, at<std::uint16_t>(whole, place_of(page) + 18));
	}),
		at_page(page) + " the places of its nodes are wrong");
}

TEST_F(LmdbFile, ANodeThatIsTooLong) {
	const PageNumber page = leaf(bytes(), 0, 1);
	EXPECT_THAT(fault_after([&](std::string& whole) { put<std::uint16_t>(whole, node_at(whole, page, 0), 4000); }),
		HasSubstr(at_page(page)));
}

TEST_F(LmdbFile, KeysOutOfOrder) {
	const PageNumber page = leaf(bytes(), 1, 1);
	EXPECT_EQ(fault_after([&](std::string& whole) { whole[node_at(whole, page, 1) + 8 + 4] = '\0'; }),
		at_page(page) + " its keys are not in order, or belong to another page");
}

TEST_F(LmdbFile, AKeyThatBelongsToAnotherPage) {
	const std::string whole = bytes();
	const PageNumber page = leaf(whole, 1, 1);
	const std::size_t last = page_at(whole, page, Kind::leaf).size() - 1;
	EXPECT_EQ(fault_after([&](std::string& bytes) { bytes[node_at(bytes, page, last) + 8 + 1] = 'z'; }),
		at_page(page) + " a key in it belongs to another page");
}

TEST_F(LmdbFile, AChildThatDoesNotExist) {
	const PageNumber page = root(bytes());
	EXPECT_EQ(fault_after([&](std::string& whole) { put<std::uint16_t>(whole, node_at(whole, page, 0), 60'000); }),
		at_page(page) + " it refers to page 60000, which does not exist");
}

TEST_F(LmdbFile, AChildThatIsAHeader) {
	const PageNumber page = root(bytes());
	EXPECT_EQ(fault_after([&](std::string& whole) { put<std::uint16_t>(whole, node_at(whole, page, 0), 1); }),
		at_page(page) + " it refers to page 1, which does not exist");
}

TEST_F(LmdbFile, APageWithTwoParents) {
	const std::string whole = bytes();
	const PageNumber page = branch(whole, 0), child = leaf(whole, 0, 0);
	EXPECT_EQ(fault_after(
				  [&](std::string& bytes) { put(bytes, node_at(bytes, page, 1), static_cast<std::uint16_t>(child)); }),
		at_page(page) + " it refers to page " + std::to_string(child) + ", which is in use elsewhere");
}

TEST_F(LmdbFile, ABranchThatIsItsOwnChild) {
	const PageNumber page = root(bytes());
	EXPECT_THAT(
		fault_after([&](std::string& whole) { put(whole, node_at(whole, page, 0), static_cast<std::uint16_t>(page)); }),
		HasSubstr("in use elsewhere"));
}

TEST_F(LmdbFile, AnOlderCopyOfAPage) {
	const std::string whole = bytes();
	// The page that the transaction before had in the place of this one.
	const Meta older = at<Meta>(whole, meta_at(1 - newer_header(whole)));
	const PageNumber old_branch = page_at(whole, older.table.root, Kind::branch).node(0).child;
	ASSERT_NE(old_branch, branch(whole, 0));
	EXPECT_NE(fault_after([&](std::string& bytes) {
		put(bytes, node_at(bytes, root(bytes), 0), static_cast<std::uint16_t>(old_branch));
	}),
		"");
}

TEST_F(LmdbFile, ARunWhoseHeaderIsOfAnotherPage) {
	const PageNumber page = run(bytes());
	EXPECT_THAT(
		fault_after([&](std::string& whole) { whole[place_of(page)] ^= 4; }), HasSubstr("which is another page"));
}

TEST_F(LmdbFile, ARunThatIsTooShortOrTooLong) {
	const std::string whole = bytes();
	const PageNumber page = run(whole);
	for (const std::uint32_t pages : {0u, 1u, 40'000u, ~0u}) {
		write(whole);
		EXPECT_THAT(fault_after([&](std::string& bytes) { put(bytes, place_of(page) + 12, pages); }),
			HasSubstr("length is wrong"));
	}
}

TEST_F(LmdbFile, ARunOverPagesThatAreInUse) {
	const std::string whole = bytes();
	const PageNumber page = run(whole);
	const std::uint32_t pages = header_at(whole, page).run_pages();
	EXPECT_NE(fault_after([&](std::string& bytes) { put(bytes, place_of(page) + 12, pages + 1); }), "");
}

TEST_F(LmdbFile, CountsThatAreNotThoseOfTheTree) {
	const std::string whole = bytes();
	for (const auto member : {&Tree::branch_pages, &Tree::leaf_pages, &Tree::overflow_pages, &Tree::entries})
		for (const auto tree : {&Meta::table, &Meta::free}) {
			write(whole);
			EXPECT_THAT(
				fault_after([&](std::string& bytes) { edit_meta(bytes, [&](Meta& meta) { ++(meta.*tree.*member); }); }),
				HasSubstr("it counts other pages"));
		}
}

TEST_F(LmdbFile, TheDepthOfTheTree) {
	const std::string whole = bytes();
	for (const std::uint16_t depth : {0, 2, 4, 33, 65535}) {
		write(whole);
		EXPECT_NE(
			fault_after([&](std::string& bytes) { edit_meta(bytes, [&](Meta& meta) { meta.table.depth = depth; }); }),
			"");
	}
}

TEST_F(LmdbFile, ATreeThatIsSaidToBeEmpty) {
	EXPECT_THAT(
		fault_after([](std::string& bytes) { edit_meta(bytes, [](Meta& meta) { meta.table.root = no_page; }); }),
		HasSubstr("an empty tree"));
}

TEST_F(LmdbFile, TheHeader) {
	const std::string whole = bytes();
	const auto fault_of = [&](const std::function<void(Meta&)>& change) {
		write(whole);
		return fault_after([&](std::string& bytes) { edit_meta(bytes, change); });
	};
	EXPECT_THAT(fault_of([](Meta& meta) { meta.magic ^= 1; }), HasSubstr("does not begin as a file of LMDB"));
	EXPECT_THAT(fault_of([](Meta& meta) { meta.version ^= 2; }), HasSubstr("unknown version"));
	EXPECT_THAT(fault_of([](Meta& meta) { meta.free.unused = 8192; }), HasSubstr("size of pages"));
	EXPECT_THAT(fault_of([](Meta& meta) { meta.free.flags ^= 4; }), HasSubstr("flags"));
	EXPECT_THAT(fault_of([](Meta& meta) { meta.table.flags ^= 4; }), HasSubstr("flags"));
	EXPECT_THAT(fault_of([](Meta& meta) { meta.last_page = 1u << 20; }), HasSubstr("last page"));
	EXPECT_THAT(fault_of([](Meta& meta) { meta.last_page = ~PageNumber{0}; }), HasSubstr("last page"));
	EXPECT_THAT(fault_of([](Meta& meta) { meta.map_bytes = 8 * page_bytes; }), HasSubstr("greatest size"));
	for (const std::uint64_t change : {1, 2, 4, 1 << 20})
		EXPECT_THAT(fault_of([&](Meta& meta) { meta.transaction ^= change; }), HasSubstr("do not follow each other"));
}

TEST_F(LmdbFile, ANumberOfATransactionThatIsTwoLessOrMore) {
	const std::string whole = bytes();
	const PageNumber newer = newer_header(whole);
	for (const PageNumber header : {newer, 1 - newer}) {
		auto meta = at<Meta>(whole, meta_at(header));
		meta.transaction += header == newer ? -2 : 2;
		write(whole);
		EXPECT_EQ(fault_after([&](std::string& bytes) { put(bytes, meta_at(header), meta); }),
			at_page(header) + " it has another number of its transaction than its list of free pages");
	}
}

TEST_F(LmdbFile, AFileThatIsCutShort) {
	const std::string whole = bytes();
	for (std::size_t size = 1; size < whole.size(); size += 2048) {
		write(whole.substr(0, size));
		EXPECT_NE(fault(), "") << size;
	}
}

TEST_F(LmdbFile, TheListOfFreePages) {
	const std::string whole = bytes();
	const PageNumber list = newer_meta(whole).free.root;
	ASSERT_EQ(newer_meta(whole).free.depth, 1u);
	const Page page = page_at(whole, list, Kind::leaf);
	const std::size_t last = page.size() - 1, record = node_at(whole, list, last) + 8 + 8;
	const auto count = at<std::uint64_t>(whole, record);
	ASSERT_GT(count, 1u);
	const auto fault_of = [&](std::size_t place, std::uint64_t number) {
		write(whole);
		return fault_after([&](std::string& bytes) { put(bytes, place, number); });
	};
	EXPECT_THAT(fault_of(record, count + 1), HasSubstr("damaged list"));
	EXPECT_THAT(fault_of(record, ~std::uint64_t{0}), HasSubstr("damaged list"));
	EXPECT_THAT(fault_of(record + 8, 1), HasSubstr("damaged list"));
	EXPECT_THAT(fault_of(record + 8, 1u << 20), HasSubstr("damaged list"));
	EXPECT_THAT(fault_of(record + 16, at<std::uint64_t>(whole, record + 8)), HasSubstr("damaged list")) << "twice";
	EXPECT_THAT(fault_of(record - 8, 0), HasSubstr("its keys are not in order")) << "the transaction 0";
	EXPECT_THAT(fault_of(record - 8, 1u << 20), HasSubstr("another number of its transaction"));
}

TEST_F(LmdbFile, APageThatIsInUseAndFree) {
	const std::string whole = bytes();
	const PageNumber list = newer_meta(whole).free.root;
	const std::size_t last = page_at(whole, list, Kind::leaf).size() - 1, record = node_at(whole, list, last) + 8 + 8;
	// The greatest number of the record becomes that of a page of the tree which is greater still.
	PageNumber in_use = newer_meta(whole).last_page;
	const auto free = free_pages();
	while (std::ranges::find(free, in_use) != free.end()) --in_use;
	ASSERT_GT(in_use, at<std::uint64_t>(whole, record + 8));
	EXPECT_NE(fault_after([&](std::string& bytes) { put(bytes, record + 8, in_use); }), "");
}

// Every bit of the first 16 bytes of every page, and of the places and headers of the nodes of all
// branch pages. If the file is accepted, LMDB must be able to change it: all records stay.
TEST_F(LmdbFile, AFlippedBitOfAPageHeaderIsRefusedOrHarmless) {
	const std::string whole = bytes();
	std::vector<std::size_t> accepted;
	const auto try_byte = [&](std::size_t offset) {
		for (int bit = 0; bit < 8; ++bit) {
			write_at(offset, static_cast<char>(whole[offset] ^ 1 << bit));
			const auto file = File::open(path_);
			// Behind the first page of a run there is no header but a part of a value.
			if (!check(*file) && find_survivors(*file)->are_all())
				accepted.push_back(8 * offset + static_cast<std::size_t>(bit));
		}
		write_at(offset, whole[offset]);
	};
	for (std::size_t page = 0; page < whole.size(); page += page_bytes)
		for (std::size_t byte = 0; byte < sizeof(PageHeader); ++byte) try_byte(page + byte);
	const auto free = free_pages();
	for (const std::size_t bit : accepted) {
		const PageNumber page = bit / 8 / page_bytes;
		const std::size_t byte = bit / 8 % page_bytes;
		const bool is_unused = byte == 8 || byte == 9 || (page < first_page && byte >= 12);
		EXPECT_TRUE(is_unused || std::ranges::find(free, page) != free.end())
			<< "byte " << byte << " of page " << page << " is used";
	}

	const std::size_t of_headers = accepted.size();
	const Page root_page = page_at(whole, root(whole), Kind::branch);
	std::vector<PageNumber> branches{root(whole)};
	for (std::size_t i = 0; i < root_page.size(); ++i) branches.push_back(root_page.node(i).child);
	for (const PageNumber branch : branches)
		for (std::size_t i = 0; i < page_at(whole, branch, Kind::branch).size(); ++i) {
			for (std::size_t byte = 0; byte < 2; ++byte) try_byte(place_of(branch) + sizeof(PageHeader) + 2 * i + byte);
			for (std::size_t byte = 0; byte < 8; ++byte) try_byte(node_at(whole, branch, i) + byte);
		}
	EXPECT_EQ(accepted.size(), of_headers) << "no bit of a branch's nodes is harmless";

	// The harmless bits at one byte of a page are tried together.
	const Content before = content_;
	for (std::size_t byte = 0; byte < sizeof(PageHeader); ++byte) {
		std::string flipped = whole;
		for (const std::size_t each : accepted)
			if (each / 8 % page_bytes == byte) flipped[each / 8] = static_cast<char>(flipped[each / 8] ^ 1 << each % 8);
		if (flipped == whole) continue;
		write(flipped);
		ASSERT_EQ(fault(), "") << byte;
		content_ = before;
		{
			const auto journal = open();
			for (int i = 0; i < keys; i += 9) set(*journal, key(i), "after");
			ASSERT_TRUE(journal->commit());
		}
		const auto journal = open();
		ASSERT_TRUE(content_of(*journal) == content_) << byte;
	}
}

}  // namespace
}  // namespace verbena::kv::lmdb
