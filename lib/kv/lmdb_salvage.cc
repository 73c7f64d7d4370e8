// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/lmdb_salvage.h"

#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "lib/kv/folder.h"
#include "lib/kv/lmdb_survivors.h"

namespace verbena::kv {
namespace {

// The most bytes of one transaction of the new file; LMDB keeps these in memory.
constexpr std::size_t transaction_bytes_max = 32 << 20;

// Writes records into a new file of LMDB, which is on the disk after finish().
class NewFile {
public:
	NewFile() = default;
	NewFile(const NewFile&) = delete;
	NewFile& operator=(const NewFile&) = delete;
	~NewFile() {
		if (transaction_ != nullptr) mdb_txn_abort(transaction_);
		if (environment_ != nullptr) mdb_env_close(environment_);
	}

	// Each returns 0 or an error of LMDB.
	int begin(const std::string& path, std::size_t bytes_max) {
		if (const int error = mdb_env_create(&environment_); error != 0) return error;
		if (const int error = mdb_env_set_mapsize(environment_, bytes_max); error != 0) return error;
		// Until the file has its name, nothing is lost with it.
		const unsigned flags = MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC;
		if (const int error = mdb_env_open(environment_, path.c_str(), flags, 0600); error != 0) return error;
		return next();
	}
	int put(std::string_view name, std::string_view content) {
		bytes_ += name.size() + content.size();
		MDB_val key{name.size(), const_cast<char*>(name.data())},
			value{content.size(), const_cast<char*>(content.data())};
		if (const int error = mdb_put(transaction_, table_, &key, &value, 0); error != 0) return error;
		return bytes_ < transaction_bytes_max ? 0 : commit() != 0 ? error_ : next();
	}
	int finish() {
		if (commit() != 0) return error_;
		return mdb_env_sync(environment_, 1);
	}

private:
	int next() {
		bytes_ = 0;
		const int error = mdb_txn_begin(environment_, nullptr, 0, &transaction_);
		return error != 0 ? error : mdb_dbi_open(transaction_, nullptr, 0, &table_);
	}
	int commit() { return error_ = mdb_txn_commit(std::exchange(transaction_, nullptr)); }

	MDB_env* environment_ = nullptr;
	MDB_txn* transaction_ = nullptr;
	MDB_dbi table_ = 0;
	std::size_t bytes_ = 0;  // in the transaction
	int error_ = 0;
};

std::string ledger_record(const Ledger& ledger, std::string_view name) {
	const Bytes value = std::as_bytes(std::span(&ledger, 1));
	std::string content(record_bytes({}, value), '\0');
	write_record(reinterpret_cast<std::byte*>(content.data()), name, {}, value, {});
	return content;
}

// Copies the records that survive. After a loss the folder's identity is left out.
int write_survivors(const std::string& path, const lmdb::File& file, const lmdb::Survivors& survivors,
	const Ledger& counted, bool is_loss, std::size_t bytes_max) {
	NewFile written;
	int error = written.begin(path, bytes_max);
	Ledger ledger{.last_version = counted.last_version};
	lmdb::for_each_record(file, survivors, [&](std::string_view name, std::string_view content, const Record& record) {
		if (error != 0 || (is_loss && record.is_note && record.key == identity_note)) return;
		ledger.add(record.checksum);
		error = written.put(name, content);
	});
	if (error == 0) error = written.put(format_name, format_2);
	const std::string name = name_of_note(Ledger::note);
	if (error == 0) error = written.put(name, ledger_record(ledger, name));
	return error != 0 ? error : written.finish();
}

// Gives the file a second name, `path`.damaged-1 or the next one that is not in use.
std::expected<std::string, std::string> keep(const std::string& path) {
	for (unsigned number = 1;; ++number) {
		std::string kept = path + ".damaged-" + std::to_string(number);
		if (link(path.c_str(), kept.c_str()) == 0) return kept;
		if (errno != EEXIST) return std::unexpected(kept + ": " + std::strerror(errno));
		// A salvage that was interrupted has linked the same file.
		if (std::error_code ignored; std::filesystem::equivalent(path, kept, ignored)) return kept;
	}
}

}  // namespace

std::expected<Salvage, std::string> salvage(
	const std::string& folder, std::size_t bytes_max, std::uint64_t versions_after) {
	const std::string path = folder + "/data.mdb", new_path = path + ".new";
	const auto refuse = [&](const std::string& why) {
		return std::unexpected(path + " cannot be salvaged: " + why + "; restore the folder from a copy");
	};
	auto file = lmdb::File::open(path);
	if (!file) return std::unexpected(file.error());
	if (file->is_empty()) return Salvage{};
	const auto survivors = lmdb::find_survivors(*file);
	if (!survivors) return refuse(survivors.error());
	Salvage result{.losses = survivors->damaged};
	if (survivors->fault) result.fault = survivors->fault->text();
	if (survivors->format == format_1) {
		if (result.fault.empty()) return Salvage{};
		return refuse(result.fault + ", and its records have no checksums");
	}
	const bool are_all = survivors->are_all();
	if (result.fault.empty() && survivors->format != format_2) result.fault = "the record of its format";
	if (survivors->leaves.empty() && !survivors->fault) return Salvage{};
	if (are_all && result.fault.empty()) return Salvage{};
	if (survivors->format.value_or(std::string(format_2)) != format_2 && !are_all)
		return refuse("its format is damaged, or of a later version");
	if (survivors->fault && survivors->found.records == 0) return refuse("no record of it can be read");

	if (survivors->unreadable_pages > 0 && !are_all)
		result.losses.push_back(std::to_string(survivors->unreadable_pages) + " pages could not be read");
	if (result.losses.empty() && !are_all) result.losses.emplace_back("records are missing, or of an older time");

	const bool is_loss = !result.losses.empty();
	Ledger ledger = survivors->found;
	if (survivors->ledger) ledger.last_version = std::max(ledger.last_version, survivors->ledger->last_version);
	if (is_loss) ledger.last_version = std::max(ledger.last_version, versions_after);
	if (unlink(new_path.c_str()) != 0 && errno != ENOENT)
		return std::unexpected(new_path + ": " + std::strerror(errno));
	bytes_max = std::max(bytes_max, 2 * file->bytes());
	if (const int error = write_survivors(new_path, *file, *survivors, ledger, is_loss, bytes_max); error != 0) {
		unlink(new_path.c_str());
		return std::unexpected(new_path + ": " + mdb_strerror(error));
	}
	auto kept = keep(path);
	if (!kept) return std::unexpected(kept.error());
	result.kept = std::move(*kept);
	// The old file must have its second name on the disk before the first one goes to the new file.
	int error = synchronise_folder(folder);
	if (error == 0 && rename(new_path.c_str(), path.c_str()) != 0) error = errno;
	if (error == 0) error = synchronise_folder(folder);
	if (error != 0) return std::unexpected(path + ": " + std::strerror(error));
	return result;
}

}  // namespace verbena::kv
