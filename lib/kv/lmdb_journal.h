// SPDX-License-Identifier: Apache-2.0
// LmdbJournal: a Journal in a folder, kept by LMDB.
//
// Each commit is one transaction that LMDB writes and synchronises to the disk before commit()
// returns. So it also survives a loss of power, if the disk honours flushes.
//
// The records are those of journal_format.h. A folder of format 1 is rewritten when it is opened.
//
// Threads: one, the store's.
// Owns: the folder, which it locks: one process at a time.
// Errors: a transaction that fails is dropped whole. If LMDB itself gives up after an error of the
//   disk, the next transaction opens the folder again. If the structure of the file is damaged,
//   open() says where. If records are damaged or missing, read_all() names some of them.
#pragma once

#include <lmdb.h>

#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "lib/kv/journal.h"
#include "lib/kv/journal_format.h"
#include "lib/kv/lmdb_salvage.h"

namespace verbena::kv {

class LmdbJournal final : public Journal {
public:
	// Opens the folder, or makes it. `bytes_max` limits its file, which grows only as needed. A
	// folder that has no versions gets them from `versions_after` on. The structure of the file is
	// checked before LMDB opens it. With `salvaged`, a damaged file is replaced first
	// (lmdb_salvage.h). The error is one sentence, also if another process has the folder.
	static std::expected<std::unique_ptr<LmdbJournal>, std::string> open(const std::string& folder,
		std::size_t bytes_max, std::uint64_t versions_after = 0, Salvage* salvaged = nullptr);
	~LmdbJournal() override;

	// Passes every committed key to `take`, in no particular order, until that returns false. The
	// error is one sentence, also if `take` has got all records that are not damaged.
	using Take = std::function<bool(std::string_view key, Bytes value, const Stamp& stamp)>;
	std::expected<void, std::string> read_all(const Take& take);
	// The version of the last change that is committed.
	std::uint64_t last_version() const { return committed_.last_version; }

	// Notes are facts of the server beside keys and values, by a name of up to 500 bytes. They are
	// written with the next commit, like changes.
	void write_note(std::string_view name, Bytes value);
	void erase_note(std::string_view name);
	std::expected<void, std::string> read_notes(const std::function<void(std::string_view name, Bytes value)>& take);

	// Journal
	void set(std::string_view key, Bytes value, const Stamp& stamp) override;
	void remove(std::string_view key, std::uint64_t version) override;
	bool commit() override;

	// One sentence about the failure of the last transaction; empty if it succeeded.
	const std::string& failure() const { return failure_; }
	std::uint64_t commits() const { return commits_; }  // transactions

private:
	LmdbJournal(std::string folder, std::size_t bytes_max, std::uint64_t versions_after)
		: folder_(std::move(folder)), bytes_max_(bytes_max), versions_after_(versions_after) {}
	std::expected<void, std::string> check_file() const;
	int start();
	void close();
	bool begin();
	void fail(int error);
	std::string reason_of(int error) const;
	int convert();
	int check_empty();
	int read_ledger();
	int write_ledger();
	int put(const std::string& name, std::string_view key, Bytes value, const Stamp& stamp);
	int erase(const std::string& name);
	void try_to(int error) {
		if (error != 0) fail(error);
	}
	std::expected<void, std::string> walk(
		const std::function<int(std::string_view name, std::string_view content)>& take);

	std::string folder_;
	std::size_t bytes_max_;
	std::uint64_t versions_after_;
	int lock_ = -1;  // descriptor of the lock file
	MDB_env* environment_ = nullptr;
	MDB_dbi table_ = 0;
	MDB_txn* transaction_ = nullptr;  // the changes since the last commit; null if there are none
	int error_ = 0;  // why these changes cannot be written
	Ledger ledger_, committed_;  // with the changes since the last commit, and without
	std::string failure_;
	std::uint64_t commits_ = 0;
};

}  // namespace verbena::kv
