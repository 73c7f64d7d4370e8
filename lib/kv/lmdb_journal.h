// LmdbJournal: a Journal in a folder, kept by LMDB.
//
// Each commit is one transaction that LMDB writes and synchronises to the disk before commit()
// returns. So it also survives a loss of power, if the disk honours flushes.
//
// LMDB limits keys to 511 bytes. A key of up to 510 bytes is stored behind one byte that says so. A
// longer one is stored by its SHA-256, and the whole key precedes its value.
//
// Threads: one, the store's.
// Owns: the folder, which it locks: one process at a time.
// Errors: a transaction that fails is dropped whole. If LMDB itself gives up after an error of the
//   disk, the next transaction opens the folder again.
#pragma once

#include <lmdb.h>

#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "lib/kv/journal.h"

namespace verbena::kv {

class LmdbJournal final : public Journal {
public:
	// Opens the folder, or makes it. `bytes_max` limits its file, which grows only as needed. The
	// error is one sentence, also if another process has the folder.
	static std::expected<std::unique_ptr<LmdbJournal>, std::string> open(
		const std::string& folder, std::size_t bytes_max);
	~LmdbJournal() override;

	// Passes every committed key and value to `take`, in no particular order, until that returns
	// false. The error is one sentence.
	std::expected<void, std::string> read_all(const std::function<bool(std::string_view key, Bytes value)>& take);

	// Notes are facts of the server beside keys and values, by a name of up to 500 bytes. They are
	// written with the next commit, like changes.
	void write_note(std::string_view name, Bytes value);
	void erase_note(std::string_view name);
	std::expected<void, std::string> read_notes(const std::function<void(std::string_view name, Bytes value)>& take);

	// Journal
	void set(std::string_view key, Bytes value) override;
	void remove(std::string_view key) override;
	bool commit() override;

	// One sentence about the failure of the last transaction; empty if it succeeded.
	const std::string& failure() const { return failure_; }
	std::uint64_t commits() const { return commits_; }  // transactions

private:
	LmdbJournal(std::string folder, std::size_t bytes_max) : folder_(std::move(folder)), bytes_max_(bytes_max) {}
	int start();
	void close();
	bool begin();
	void fail(int error);
	std::string reason_of(int error) const;
	void erase(const std::string& name);
	std::expected<void, std::string> walk(
		const std::function<int(std::string_view name, std::string_view value)>& take);

	std::string folder_;
	std::size_t bytes_max_;
	int lock_ = -1;  // descriptor of the lock file
	MDB_env* environment_ = nullptr;
	MDB_dbi table_ = 0;
	MDB_txn* transaction_ = nullptr;  // the changes since the last commit; null if there are none
	int error_ = 0;  // why these changes cannot be written
	std::string failure_;
	std::uint64_t commits_ = 0;
};

}  // namespace verbena::kv
