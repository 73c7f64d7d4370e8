// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/lmdb_journal.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "lib/kv/folder.h"
#include "lib/kv/lmdb_file.h"

namespace verbena::kv {
namespace {

// Names of format 1 begin with small letters, those of format 2 with capital ones.
constexpr std::string_view first_name_1 = "a";
constexpr std::string_view way_out = "; restore the folder from a copy, or lose what is damaged by --salvage";
// The most damaged records that an error names.
constexpr std::size_t named_max = 5;

MDB_val value_of(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }
std::string_view text_at(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

// The checksum of a record that lies in the table.
std::uint64_t checksum_at(const MDB_val& content) {
	std::uint64_t checksum = 0;
	if (content.mv_size >= sizeof checksum) std::memcpy(&checksum, content.mv_data, sizeof checksum);
	return checksum;
}

}  // namespace

std::expected<std::unique_ptr<LmdbJournal>, std::string> LmdbJournal::open(
	const std::string& folder, std::size_t bytes_max, std::uint64_t versions_after, Salvage* salvaged) {
	std::unique_ptr<LmdbJournal> journal(new LmdbJournal(folder, bytes_max, versions_after));
	if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
		return std::unexpected(folder + ": " + std::strerror(errno));
	journal->lock_ = ::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (journal->lock_ < 0) return std::unexpected(folder + ": " + std::strerror(errno));
	if (flock(journal->lock_, LOCK_EX | LOCK_NB) != 0) return std::unexpected(folder + " is in use by another server");
	if (salvaged != nullptr) {
		auto done = salvage(folder, bytes_max, versions_after);
		if (!done) return std::unexpected(std::move(done.error()));
		*salvaged = std::move(*done);
	}
	if (auto checked = journal->check_file(); !checked) return std::unexpected(std::move(checked.error()));
	if (const int error = journal->start(); error != 0) return std::unexpected(journal->reason_of(error));
	// Without this a power failure may leave neither the new files nor the new folder.
	for (const std::string& name : {folder, parent_of(folder)})
		if (const int error = synchronise_folder(name); error != 0)
			return std::unexpected(name + ": " + std::strerror(error));
	return journal;
}

// LMDB follows the page numbers and offsets in the file without a check, also when it writes.
std::expected<void, std::string> LmdbJournal::check_file() const {
	const std::string path = folder_ + "/data.mdb";
	const auto file = lmdb::File::open(path);
	if (!file) return std::unexpected(file.error());
	if (const auto fault = lmdb::check(*file))
		return std::unexpected(path + " is damaged at " + fault->text() + std::string(way_out));
	return {};
}

int LmdbJournal::start() {
	if (const int error = mdb_env_create(&environment_); error != 0) return error;
	if (const int error = mdb_env_set_mapsize(environment_, bytes_max_); error != 0) return error;
	// LMDB's locks are not needed: our lock file keeps other processes out, and there is one
	// thread.
	if (const int error = mdb_env_open(environment_, folder_.c_str(), MDB_NOLOCK, 0600); error != 0) return error;
	if (const int error = mdb_txn_begin(environment_, nullptr, 0, &transaction_); error != 0) return error;
	MDB_val name = value_of(format_name), found;
	int error = mdb_dbi_open(transaction_, nullptr, 0, &table_);
	if (error == 0) error = mdb_get(transaction_, table_, &name, &found);
	if (error == 0 && text_at(found) == format_2) {
		error = read_ledger();
	} else if (error == MDB_NOTFOUND || (error == 0 && text_at(found) == format_1)) {
		ledger_ = {.last_version = versions_after_};
		error = error == 0 ? convert() : check_empty();
		MDB_val written = value_of(format_2);
		if (error == 0) error = mdb_put(transaction_, table_, &name, &written, 0);
		if (error == 0) error = write_ledger();
	} else if (error == 0) {
		error = MDB_VERSION_MISMATCH;
	}
	if (error == 0) error = mdb_txn_commit(std::exchange(transaction_, nullptr));
	else mdb_txn_abort(std::exchange(transaction_, nullptr));
	committed_ = ledger_;
	return error;
}

// Records without a format have lost it by damage.
int LmdbJournal::check_empty() {
	MDB_stat facts{};
	const int error = mdb_stat(transaction_, table_, &facts);
	return error == 0 && facts.ms_entries > 0 ? MDB_VERSION_MISMATCH : error;
}

// Rewrites all records of format 1, in the present transaction.
int LmdbJournal::convert() {
	MDB_cursor* cursor = nullptr;
	int error = mdb_cursor_open(transaction_, table_, &cursor);
	std::string at(first_name_1);
	while (error == 0) {
		MDB_val name = value_of(at), content;
		error = mdb_cursor_get(cursor, &name, &content, MDB_SET_RANGE);
		if (error != 0) break;
		// The bytes in the table move when it changes.
		at = text_at(name);
		if (at == format_name) {
			at.push_back('\0');
			continue;
		}
		const std::string old(text_at(content));
		const auto record = read_record_1(at, old);
		if (!record) error = MDB_CORRUPTED;
		if (error == 0) error = mdb_cursor_del(cursor, 0);
		if (error != 0) break;
		if (record->is_note) error = put(name_of_note(record->key), {}, record->value, {});
		else error = put(name_of_key(record->key), record->key, record->value, {.version = ++ledger_.last_version});
	}
	if (cursor != nullptr) mdb_cursor_close(cursor);
	return error == MDB_NOTFOUND ? 0 : error;
}

// A ledger that is damaged, or missing, stays empty; read_all() then reports that.
int LmdbJournal::read_ledger() {
	const std::string whole = name_of_note(Ledger::note);
	MDB_val name = value_of(whole), content;
	ledger_ = {};
	const int error = mdb_get(transaction_, table_, &name, &content);
	if (error != 0) return error == MDB_NOTFOUND ? 0 : error;
	if (const auto record = read_record(whole, text_at(content)); record && record->value.size() == sizeof ledger_)
		std::memcpy(&ledger_, record->value.data(), sizeof ledger_);
	return 0;
}

int LmdbJournal::write_ledger() {
	const std::string whole = name_of_note(Ledger::note);
	const Bytes value = std::as_bytes(std::span(&ledger_, 1));
	MDB_val name = value_of(whole), place{record_bytes({}, value), nullptr};
	const int error = mdb_put(transaction_, table_, &name, &place, MDB_RESERVE);
	if (error == 0) write_record(static_cast<std::byte*>(place.mv_data), whole, {}, value, {});
	return error;
}

void LmdbJournal::close() {
	if (transaction_ != nullptr) mdb_txn_abort(std::exchange(transaction_, nullptr));
	if (environment_ != nullptr) mdb_env_close(std::exchange(environment_, nullptr));
}

LmdbJournal::~LmdbJournal() {
	close();
	if (lock_ >= 0) ::close(lock_);
}

// Passes every record of the table to `take`, which returns 0, MDB_NOTFOUND to end, or an error.
std::expected<void, std::string> LmdbJournal::walk(const std::function<int(std::string_view, std::string_view)>& take) {
	MDB_txn* transaction = nullptr;
	MDB_cursor* cursor = nullptr;
	int error = mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &transaction);
	if (error == 0) error = mdb_cursor_open(transaction, table_, &cursor);
	for (MDB_val name, content; error == 0;) {
		error = mdb_cursor_get(cursor, &name, &content, MDB_NEXT);
		if (error == 0 && text_at(name) != format_name) error = take(text_at(name), text_at(content));
	}
	if (cursor != nullptr) mdb_cursor_close(cursor);
	if (transaction != nullptr) mdb_txn_abort(transaction);
	if (error != 0 && error != MDB_NOTFOUND) return std::unexpected(folder_ + ": " + mdb_strerror(error));
	return {};
}

std::expected<void, std::string> LmdbJournal::read_all(const Take& take) {
	Ledger found{.last_version = committed_.last_version};
	std::size_t damaged = 0;
	std::string names;
	bool ended = false;
	const auto read = walk([&](std::string_view name, std::string_view content) {
		const auto record = read_record(name, content);
		if (!record || record->value.size() > value_max) {
			if (damaged++ < named_max) names += (names.empty() ? "" : ", ") + damaged_name(name);
			return 0;
		}
		if (record->is_note && record->key == Ledger::note) return 0;
		found.add(record->checksum);
		ended = !record->is_note && !take(record->key, record->value, record->stamp);
		return ended ? MDB_NOTFOUND : 0;
	});
	if (!read || ended) return read;
	if (damaged == 0 && found == committed_) return {};
	std::string error = folder_;
	if (damaged > 0)
		error += ": " + std::to_string(damaged) + " damaged records: " + names + (damaged > named_max ? ", ..." : "");
	else error += ": records are missing, or of an older time";
	return std::unexpected(error + std::string(way_out));
}

std::expected<void, std::string> LmdbJournal::read_notes(const std::function<void(std::string_view, Bytes)>& take) {
	return walk([&](std::string_view name, std::string_view content) {
		if (const auto record = read_record(name, content); record && record->is_note) take(record->key, record->value);
		return 0;
	});
}

// Writes.

// Replaces a record. The ledger follows.
int LmdbJournal::put(const std::string& name, std::string_view key, Bytes value, const Stamp& stamp) {
	MDB_val as_key = value_of(name), place;
	int error = mdb_get(transaction_, table_, &as_key, &place);
	if (error == 0) ledger_.take(checksum_at(place));
	if (error != 0 && error != MDB_NOTFOUND) return error;
	place = {record_bytes(key, value), nullptr};
	error = mdb_put(transaction_, table_, &as_key, &place, MDB_RESERVE);
	if (error == 0) ledger_.add(write_record(static_cast<std::byte*>(place.mv_data), name, key, value, stamp));
	return error;
}

int LmdbJournal::erase(const std::string& name) {
	MDB_val key = value_of(name), content;
	const int error = mdb_get(transaction_, table_, &key, &content);
	if (error != 0) return error == MDB_NOTFOUND ? 0 : error;
	ledger_.take(checksum_at(content));
	return mdb_del(transaction_, table_, &key, nullptr);
}

void LmdbJournal::write_note(std::string_view name, Bytes value) {
	if (begin()) try_to(put(name_of_note(name), {}, value, {}));
}

void LmdbJournal::erase_note(std::string_view name) {
	if (begin()) try_to(erase(name_of_note(name)));
}

void LmdbJournal::set(std::string_view key, Bytes value, const Stamp& stamp) {
	if (!begin()) return;
	ledger_.last_version = std::max(ledger_.last_version, stamp.version);
	try_to(put(name_of_key(key), key, value, stamp));
}

void LmdbJournal::remove(std::string_view key, std::uint64_t version) {
	if (!begin()) return;
	ledger_.last_version = std::max(ledger_.last_version, version);
	try_to(erase(name_of_key(key)));
}

// LMDB calls a write that the file system cut short an EIO.
std::string LmdbJournal::reason_of(int error) const {
	struct statvfs room{};
	const bool is_full =
		error == EIO && statvfs(folder_.c_str(), &room) == 0 && room.f_bavail * room.f_frsize < std::size_t{1} << 20;
	if (error == MDB_VERSION_MISMATCH)
		return folder_ + ": the record of its format is damaged, or of a later version" + std::string(way_out);
	return folder_ + ": " + mdb_strerror(is_full ? ENOSPC : error);
}

void LmdbJournal::fail(int error) {
	if (transaction_ != nullptr) mdb_txn_abort(std::exchange(transaction_, nullptr));
	if (error_ == 0) error_ = error;
}

bool LmdbJournal::begin() {
	if (error_ != 0) return false;
	if (transaction_ != nullptr) return true;
	int error = environment_ == nullptr ? MDB_PANIC : mdb_txn_begin(environment_, nullptr, 0, &transaction_);
	if (error == MDB_PANIC) {
		// LMDB has failed to write a header. It has restored the old one, and refuses everything.
		// The file was checked when it was opened, and only this process has written to it.
		close();
		error = start();
		if (error == 0) error = mdb_txn_begin(environment_, nullptr, 0, &transaction_);
		else close();
	}
	if (error != 0) fail(error);
	return error == 0;
}

bool LmdbJournal::commit() {
	if (transaction_ != nullptr) try_to(write_ledger());
	if (transaction_ != nullptr) {
		++commits_;
		error_ = mdb_txn_commit(std::exchange(transaction_, nullptr));
	}
	(error_ == 0 ? committed_ : ledger_) = error_ == 0 ? ledger_ : committed_;
	failure_ = error_ == 0 ? std::string() : reason_of(error_);
	return std::exchange(error_, 0) == 0;
}

}  // namespace verbena::kv
