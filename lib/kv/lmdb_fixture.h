// SPDX-License-Identifier: Apache-2.0
// For tests: what a journal has, its table as LMDB shows it, and a journal in a folder of its own
// with the bytes of its file, which a test may change.
#pragma once

#include <gtest/gtest.h>
#include <lmdb.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "lib/kv/lmdb_file.h"
#include "lib/kv/lmdb_journal.h"

namespace verbena::kv::testing_tools {

using Content = std::map<std::string, std::string>;

// All keys of the journal with their values.
inline Content content_of(LmdbJournal& journal) {
	Content content;
	const auto read = journal.read_all([&](std::string_view key, Bytes value, const Stamp&) {
		content[std::string(key)] = text_of(value);
		return true;
	});
	EXPECT_TRUE(read.has_value()) << read.error();
	return content;
}

// Reads and changes the table of this folder without a journal, in one transaction.
inline void in_table(const std::string& folder, const std::function<void(MDB_txn*, MDB_dbi)>& act) {
	MDB_env* environment = nullptr;
	MDB_txn* transaction = nullptr;
	MDB_dbi table = 0;
	ASSERT_EQ(mdb_env_create(&environment), 0);
	ASSERT_EQ(mdb_env_set_mapsize(environment, 64 << 20), 0);
	ASSERT_EQ(mdb_env_open(environment, folder.c_str(), MDB_NOLOCK, 0600), 0);
	ASSERT_EQ(mdb_txn_begin(environment, nullptr, 0, &transaction), 0);
	ASSERT_EQ(mdb_dbi_open(transaction, nullptr, 0, &table), 0);
	act(transaction, table);
	ASSERT_EQ(mdb_txn_commit(transaction), 0);
	mdb_env_close(environment);
}

class JournalFile : public ::testing::Test {
protected:
	static constexpr std::size_t page_bytes = 4096;
	static constexpr int keys = 90;  // that were set

	// Makes a table of three levels with short and long values, and free pages with older records.
	void SetUp() override {
		ASSERT_EQ(sysconf(_SC_PAGESIZE), page_bytes);
		std::string folder = "/tmp/kv_lmdb_XXXXXX";
		ASSERT_NE(mkdtemp(folder.data()), nullptr);
		folder_ = folder;
		path_ = folder_ + "/data.mdb";
		const auto journal = open();
		ASSERT_NE(journal, nullptr);
		journal->write_note("identity", bytes_of("12345678"));
		for (int i = 0; i < keys; ++i) set(*journal, key(i), "value " + std::to_string(i));
		ASSERT_TRUE(journal->commit());
		for (const int i : {0, 30, 60}) set(*journal, key(i), std::string(5000, 'o'));
		for (int i = 40; i < 44; ++i) remove(*journal, key(i));
		ASSERT_TRUE(journal->commit());
		for (const int i : {0, 10, 70}) set(*journal, key(i), "newer " + std::to_string(i));
		set(*journal, key(30), std::string(9000, 'n'));
		remove(*journal, key(33));
		ASSERT_TRUE(journal->commit());
	}
	void TearDown() override { std::filesystem::remove_all(folder_); }

	static std::string key(int number) {
		const std::string digits = std::to_string(1000 + number);
		return digits + std::string(480, 'k');
	}
	std::unique_ptr<LmdbJournal> open(Salvage* salvaged = nullptr, std::uint64_t versions_after = 0) const {
		auto opened = LmdbJournal::open(folder_, 64 << 20, versions_after, salvaged);
		EXPECT_TRUE(opened.has_value()) << opened.error();
		return opened ? std::move(*opened) : nullptr;
	}
	void set(LmdbJournal& journal, const std::string& key, const std::string& value) {
		journal.set(key, bytes_of(value), {.version = ++version_});
		content_[key] = value;
	}
	void remove(LmdbJournal& journal, const std::string& key) {
		journal.remove(key, ++version_);
		content_.erase(key);
	}

	std::string bytes() const {
		std::ifstream file(path_, std::ios::binary);
		return {std::istreambuf_iterator<char>(file), {}};
	}
	void write(const std::string& bytes) const {
		std::ofstream file(path_, std::ios::binary | std::ios::trunc);
		file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
		ASSERT_TRUE(file.flush().good());
	}
	// Writes one byte, so that a test can try many.
	void write_at(std::size_t offset, char byte) const {
		std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
		file.seekp(static_cast<std::streamoff>(offset)).put(byte);
		ASSERT_TRUE(file.flush().good());
	}
	void edit(const std::function<void(std::string&)>& change) const {
		std::string whole = bytes();
		change(whole);
		write(whole);
	}

	// Values in the bytes of a file.
	template <class T> static T at(const std::string& bytes, std::size_t offset) {
		T value;
		std::memcpy(&value, bytes.data() + offset, sizeof value);
		return value;
	}
	template <class T> static void put(std::string& bytes, std::size_t offset, T value) {
		std::memcpy(bytes.data() + offset, &value, sizeof value);
	}
	static constexpr std::size_t place_of(lmdb::PageNumber page) { return page * page_bytes; }
	static constexpr std::size_t meta_at(lmdb::PageNumber page) { return place_of(page) + sizeof(lmdb::PageHeader); }
	static lmdb::PageNumber newer_header(const std::string& bytes) {
		const auto transaction = [&](lmdb::PageNumber page) {
			return at<lmdb::Meta>(bytes, meta_at(page)).transaction;
		};
		return transaction(1) > transaction(0) ? 1 : 0;
	}
	static lmdb::Meta newer_meta(const std::string& bytes) {
		return at<lmdb::Meta>(bytes, meta_at(newer_header(bytes)));
	}
	static void edit_meta(std::string& bytes, const std::function<void(lmdb::Meta&)>& change) {
		lmdb::Meta meta = newer_meta(bytes);
		change(meta);
		put(bytes, meta_at(newer_header(bytes)), meta);
	}
	static lmdb::PageHeader header_at(const std::string& bytes, lmdb::PageNumber page) {
		return at<lmdb::PageHeader>(bytes, place_of(page));
	}
	static lmdb::Page page_at(const std::string& bytes, lmdb::PageNumber number, lmdb::Kind kind) {
		const auto page =
			lmdb::Page::read(std::as_bytes(std::span(bytes)).subspan(place_of(number), page_bytes), number, kind);
		EXPECT_TRUE(page.has_value()) << number << ": " << page.error();
		return page.value_or(lmdb::Page());
	}
	// The place of a node's header.
	static std::size_t node_at(const std::string& bytes, lmdb::PageNumber page, std::size_t index) {
		return place_of(page) + at<std::uint16_t>(bytes, place_of(page) + sizeof(lmdb::PageHeader) + 2 * index);
	}
	static lmdb::PageNumber root(const std::string& bytes) { return newer_meta(bytes).table.root; }
	static lmdb::PageNumber branch(const std::string& bytes, std::size_t index) {
		return page_at(bytes, root(bytes), lmdb::Kind::branch).node(index).child;
	}
	static lmdb::PageNumber leaf(const std::string& bytes, std::size_t of_branch, std::size_t index) {
		return page_at(bytes, branch(bytes, of_branch), lmdb::Kind::branch).node(index).child;
	}
	// The first page of the run of one long value.
	static lmdb::PageNumber run(const std::string& bytes) {
		const lmdb::Page root_page = page_at(bytes, root(bytes), lmdb::Kind::branch);
		for (std::size_t i = 0; i < root_page.size(); ++i) {
			const lmdb::Page branch_page = page_at(bytes, root_page.node(i).child, lmdb::Kind::branch);
			for (std::size_t j = 0; j < branch_page.size(); ++j) {
				const lmdb::Page leaf_page = page_at(bytes, branch_page.node(j).child, lmdb::Kind::leaf);
				for (std::size_t k = 0; k < leaf_page.size(); ++k)
					if (leaf_page.node(k).in_run) return leaf_page.node(k).run();
			}
		}
		ADD_FAILURE() << "there is no run";
		return 0;
	}
	// The numbers of free pages.
	std::vector<lmdb::PageNumber> free_pages() const {
		const auto file = lmdb::File::open(path_);
		std::vector<lmdb::PageNumber> free;
		const lmdb::Meta meta = file->headers()->newer();
		lmdb::Pages seen(meta.last_page + 1);
		const auto fault = lmdb::read_free_list(*file, meta, 0, seen, [&](lmdb::PageNumber each) {
			free.push_back(each);
			return true;
		});
		EXPECT_FALSE(fault.has_value()) << fault->text();
		return free;
	}

	std::string folder_, path_;
	Content content_;  // that the journal must have
	std::uint64_t version_ = 0;
};

}  // namespace verbena::kv::testing_tools
