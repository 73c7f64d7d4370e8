#include "lib/kv/lmdb_journal.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace verbena::kv {
namespace {

// The first byte of each key in LMDB's table: a short key follows, the hash of a long key follows,
// or the entry is about the journal itself.
constexpr char short_key = 'k', long_key = 'l', about = 'a';
constexpr std::size_t short_max = 510;
constexpr std::string_view version_name = "aversion", version = "1";

MDB_val value_of(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }
std::string_view text_at(const MDB_val& value) { return {static_cast<const char*>(value.mv_data), value.mv_size}; }

// The key in LMDB's table.
std::string name_for(std::string_view key) {
	std::string name;
	if (key.size() <= short_max) {
		name.reserve(key.size() + 1);
		name.push_back(short_key);
		return name.append(key);
	}
	unsigned char digest[SHA256_DIGEST_LENGTH];
	SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest);
	name.push_back(long_key);
	return name.append(reinterpret_cast<const char*>(digest), sizeof digest);
}

std::string parent_of(const std::string& folder) {
	const std::filesystem::path whole = std::filesystem::absolute(folder / std::filesystem::path()).lexically_normal();
	return whole.parent_path().parent_path();
}

// Writes the names that a folder has to the disk. Returns 0 or an errno. A folder that this process
// may not read, and a file system that does not synchronise folders, are no error.
int synchronise_folder(const std::string& name) {
	const int file = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error = file < 0 || fsync(file) != 0 ? errno : 0;
	if (file >= 0) ::close(file);
	if (error == EACCES || error == EINVAL) error = 0;
	return error;
}

}  // namespace

std::expected<std::unique_ptr<LmdbJournal>, std::string> LmdbJournal::open(
	const std::string& folder, std::size_t bytes_max) {
	std::unique_ptr<LmdbJournal> journal(new LmdbJournal(folder, bytes_max));
	if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
		return std::unexpected(folder + ": " + std::strerror(errno));
	journal->lock_ = ::open((folder + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (journal->lock_ < 0) return std::unexpected(folder + ": " + std::strerror(errno));
	if (flock(journal->lock_, LOCK_EX | LOCK_NB) != 0) return std::unexpected(folder + " is in use by another server");
	if (const int error = journal->start(); error != 0) return std::unexpected(journal->reason_of(error));
	// Without this a power failure may leave neither the new files nor the new folder.
	for (const std::string& name : {folder, parent_of(folder)})
		if (const int error = synchronise_folder(name); error != 0)
			return std::unexpected(name + ": " + std::strerror(error));
	return journal;
}

int LmdbJournal::start() {
	if (const int error = mdb_env_create(&environment_); error != 0) return error;
	if (const int error = mdb_env_set_mapsize(environment_, bytes_max_); error != 0) return error;
	// LMDB's locks are not needed: our lock file keeps other processes out, and there is one
	// thread.
	if (const int error = mdb_env_open(environment_, folder_.c_str(), MDB_NOLOCK, 0600); error != 0) return error;
	MDB_txn* transaction = nullptr;
	if (const int error = mdb_txn_begin(environment_, nullptr, 0, &transaction); error != 0) return error;
	MDB_val name = value_of(version_name), found;
	int error = mdb_dbi_open(transaction, nullptr, 0, &table_);
	if (error == 0) error = mdb_get(transaction, table_, &name, &found);
	if (error == MDB_NOTFOUND) {
		MDB_val first = value_of(version);
		error = mdb_put(transaction, table_, &name, &first, 0);
	} else if (error == 0 && text_at(found) != version) {
		error = MDB_VERSION_MISMATCH;
	}
	if (error == 0) return mdb_txn_commit(transaction);
	mdb_txn_abort(transaction);
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

// Passes every entry of LMDB's table to `take`, which returns 0, MDB_NOTFOUND to end, or an error.
std::expected<void, std::string> LmdbJournal::walk(const std::function<int(std::string_view, std::string_view)>& take) {
	MDB_txn* transaction = nullptr;
	MDB_cursor* cursor = nullptr;
	int error = mdb_txn_begin(environment_, nullptr, MDB_RDONLY, &transaction);
	if (error == 0) error = mdb_cursor_open(transaction, table_, &cursor);
	for (MDB_val name, value; error == 0;) {
		error = mdb_cursor_get(cursor, &name, &value, MDB_NEXT);
		if (error == 0) error = take(text_at(name), text_at(value));
	}
	if (cursor != nullptr) mdb_cursor_close(cursor);
	if (transaction != nullptr) mdb_txn_abort(transaction);
	if (error != 0 && error != MDB_NOTFOUND) return std::unexpected(folder_ + ": " + mdb_strerror(error));
	return {};
}

std::expected<void, std::string> LmdbJournal::read_all(const std::function<bool(std::string_view, Bytes)>& take) {
	return walk([&](std::string_view name, std::string_view value) {
		std::string_view key = name.substr(1);
		if (name.front() == about) return 0;
		if (name.front() == long_key) {
			// The value begins with the key's length and the key.
			std::uint32_t length = 0;
			if (value.size() >= sizeof length) std::memcpy(&length, value.data(), sizeof length);
			if (length <= short_max || length > key_max || value.size() - sizeof length < length) return MDB_CORRUPTED;
			key = value.substr(sizeof length, length);
			value = value.substr(sizeof length + length);
		}
		if (key.empty() || value.size() > value_max) return MDB_CORRUPTED;
		return take(key, bytes_of(value)) ? 0 : MDB_NOTFOUND;
	});
}

std::expected<void, std::string> LmdbJournal::read_notes(const std::function<void(std::string_view, Bytes)>& take) {
	return walk([&](std::string_view name, std::string_view value) {
		if (name.front() == about) take(name.substr(1), bytes_of(value));
		return 0;
	});
}

void LmdbJournal::write_note(std::string_view name, Bytes value) {
	if (!begin()) return;
	const std::string whole = about + std::string(name);
	MDB_val key = value_of(whole), content = value_of(text_of(value));
	if (const int error = mdb_put(transaction_, table_, &key, &content, 0); error != 0) fail(error);
}

void LmdbJournal::erase_note(std::string_view name) {
	if (begin()) erase(about + std::string(name));
}

// LMDB calls a write that the file system cut short an EIO.
std::string LmdbJournal::reason_of(int error) const {
	struct statvfs room{};
	const bool is_full =
		error == EIO && statvfs(folder_.c_str(), &room) == 0 && room.f_bavail * room.f_frsize < std::size_t{1} << 20;
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
		close();
		error = start();
		if (error == 0) error = mdb_txn_begin(environment_, nullptr, 0, &transaction_);
		else close();
	}
	if (error != 0) fail(error);
	return error == 0;
}

void LmdbJournal::set(std::string_view key, Bytes value) {
	if (!begin()) return;
	const std::string name = name_for(key);
	const auto length = static_cast<std::uint32_t>(key.size());
	const bool is_long = key.size() > short_max;
	MDB_val as_key = value_of(name), place{(is_long ? sizeof length + key.size() : 0) + value.size(), nullptr};
	if (const int error = mdb_put(transaction_, table_, &as_key, &place, MDB_RESERVE); error != 0) return fail(error);
	auto* at = static_cast<std::byte*>(place.mv_data);
	if (is_long) {
		std::memcpy(at, &length, sizeof length);
		std::memcpy(at + sizeof length, key.data(), key.size());
		at += sizeof length + key.size();
	}
	if (!value.empty()) std::memcpy(at, value.data(), value.size());
}

void LmdbJournal::remove(std::string_view key) {
	if (begin()) erase(name_for(key));
}

void LmdbJournal::erase(const std::string& name) {
	MDB_val key = value_of(name);
	if (const int error = mdb_del(transaction_, table_, &key, nullptr); error != 0 && error != MDB_NOTFOUND)
		fail(error);
}

bool LmdbJournal::commit() {
	if (transaction_ != nullptr) {
		++commits_;
		error_ = mdb_txn_commit(std::exchange(transaction_, nullptr));
	}
	failure_ = error_ == 0 ? std::string() : reason_of(error_);
	return std::exchange(error_, 0) == 0;
}

}  // namespace verbena::kv
