// A Journal in a folder, by LMDB: each commit is one transaction, written and synchronised before commit() returns, so
// that it also survives the loss of power as far as the disk keeps its word.
//
// LMDB takes keys of up to 511 bytes. A key of the store is its own if it is shorter than that; a longer one is known
// by its SHA-256, and the whole key stands in front of its value.
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
	// Makes the folder if there is none. `bytes_max`: of its file, which only grows as needed. One process at a time;
	// the error is one sentence.
	static std::expected<std::unique_ptr<LmdbJournal>, std::string> open(
		const std::string& folder, std::size_t bytes_max);
	~LmdbJournal() override;

	// Everything that has been committed, in no order, until `take` says false. The error is one sentence.
	std::expected<void, std::string> read_all(const std::function<bool(std::string_view key, Bytes value)>& take);

	// Journal
	void set(std::string_view key, Bytes value) override;
	void remove(std::string_view key) override;
	bool pending() const override { return transaction_ != nullptr || !failure_.empty(); }
	bool commit() override;

	// One sentence, once something could not be written.
	const std::string& failure() const { return failure_; }
	std::uint64_t commits() const { return commits_; }

private:
	explicit LmdbJournal(std::string folder) : folder_(std::move(folder)) {}
	int start(std::size_t bytes_max);
	bool begin();
	void fail(int error);

	std::string folder_;
	int lock_ = -1;
	MDB_env* environment_ = nullptr;
	MDB_dbi table_ = 0;
	MDB_txn* transaction_ = nullptr;
	std::string failure_;
	std::uint64_t commits_ = 0;
};

}  // namespace verbena::kv
