// SPDX-License-Identifier: Apache-2.0
// salvage(): replaces the damaged file of a journal by a new one, with all records of it that
// certainly belong to its last transaction.
//
// A file also has pages of earlier transactions, whose records are right but old. A record is taken
// if its checksum is right and one of these holds:
//   - the ledger (journal_format.h) accounts for exactly the records of the tree;
//   - the structure of the file is right, and only records are damaged;
//   - the list of free pages is right, and the page of the record is not in it. Each page of the
//     database is in use or free, so no branch page is needed to find the leaves.
// If none of them holds, nothing is taken, and the file stays.
//
// Threads: one; the caller has locked the folder.
// Errors: one sentence. A crash leaves either the old file in its place or the new one.
#pragma once

#include <expected>
#include <string>
#include <vector>

namespace verbena::kv {

struct Salvage {
	std::vector<std::string> losses;  // a phrase for each
	std::string fault;                // the damage of the structure; may be empty
	std::string kept;                 // the name of the old file; empty if it is sound and stays
};

// `bytes_max` and `versions_after` are those of LmdbJournal::open(). After a loss the folder has no
// identity, and the versions go on after `versions_after`.
std::expected<Salvage, std::string> salvage(
	const std::string& folder, std::size_t bytes_max, std::uint64_t versions_after);

}  // namespace verbena::kv
