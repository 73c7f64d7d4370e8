// SPDX-License-Identifier: Apache-2.0
// Survivors: the leaf pages of a journal's file that certainly belong to its last transaction, as
// lmdb_salvage.h says, and what their records are.
//
// Threads: one.
#pragma once

#include "lib/kv/journal_format.h"
#include "lib/kv/lmdb_file.h"

namespace verbena::kv::lmdb {

struct Survivors {
	std::size_t page_bytes = 0;
	std::vector<PageNumber> leaves;
	bool mended = false;                 // the leaves may have wrong numbers or kinds
	std::optional<Fault> fault;          // in the structure
	std::vector<std::string> damaged;    // a phrase for each damaged record
	std::uint64_t unreadable_pages = 0;  // pages in use that nothing can be read from
	Ledger found;      // the records; its last_version is their greatest
	std::optional<Ledger> ledger;        // as it was written
	std::optional<std::string> format;   // format_1 or format_2; this record has no checksum

	// The records are those of the ledger's transaction, all of them and no others.
	bool are_all() const {
		return ledger && damaged.empty() && ledger->records == found.records && ledger->checksums == found.checksums;
	}
};

// The error is a phrase: why no page can be trusted.
std::expected<Survivors, std::string> find_survivors(const File& file);

// Passes every record whose checksum is right, but the ledger.
using TakeRecord = std::function<void(std::string_view name, std::string_view content, const Record& record)>;
void for_each_record(const File& file, const Survivors& survivors, const TakeRecord& take);

}  // namespace verbena::kv::lmdb
