// SPDX-License-Identifier: Apache-2.0
// Format 2 of the journal's table: the names and the records of keys and notes.
//
// LMDB limits names to 511 bytes. The name of a key of up to 510 bytes is a letter and the key. The
// name of a longer one is another letter and its SHA-256, and the whole key precedes its value. A
// note is a fact of the server beside the keys.
//
// Each record begins with a checksum (XXH3-64) of its name and of all that follows. A Ledger, which
// is a note too, has the sum of the checksums of all other records. So a changed bit is found, and
// also a record that is missing, or that comes from an older state of the table.
//
// Threads: any; pure functions.
// Errors: the bytes come from a disk; nothing that a reader returns lies outside of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/kv/journal.h"

namespace verbena::kv {

// The beginning of a record, in the form in which it is written.
struct RecordHeader {
	std::uint64_t checksum = 0;
	std::uint64_t version = 0;     // the key's; 0: a note
	std::uint64_t expires = 0;     // Stamp::expires
	std::uint32_t flags = 0;
	std::uint32_t key_length = 0;  // a key follows this header; 0: the name has it
};
static_assert(sizeof(RecordHeader) == 32);

// The table's record without a checksum, which has the number of the format.
constexpr std::string_view format_name = "aversion", format_1 = "1", format_2 = "2";
// The note with the identity of the folder (sessions.h).
constexpr std::string_view identity_note = "identity";

std::string name_of_key(std::string_view key);
std::string name_of_note(std::string_view note);

// The bytes of a record, for write_record().
std::size_t record_bytes(std::string_view key, Bytes value);
// Writes the record of a key to `place`, and returns its checksum. `name` is name_of_key(). For a
// note, `key` is empty and the stamp is {}.
std::uint64_t write_record(
	std::byte* place, std::string_view name, std::string_view key, Bytes value, const Stamp& stamp);

struct Record {
	bool is_note = false;
	std::string_view key;  // the note's name, if it is one
	Bytes value;
	Stamp stamp;
	std::uint64_t checksum = 0;
};
// Returns nothing if the record is damaged.
std::optional<Record> read_record(std::string_view name, std::string_view content);
// The same for format 1, which has no checksums and no stamps.
std::optional<Record> read_record_1(std::string_view name, std::string_view content);

// The key of a damaged record, or about what it is, for a message.
std::string damaged_name(std::string_view name);

struct Ledger {
	static constexpr std::string_view note = "ledger";

	// The number of all other records, and the sum of their checksums.
	std::uint64_t records = 0, checksums = 0;
	std::uint64_t last_version = 0;  // the last change's, which may be a DEL

	void add(std::uint64_t checksum) { ++records, checksums += checksum; }
	void take(std::uint64_t checksum) { --records, checksums -= checksum; }
	bool operator==(const Ledger&) const = default;
};

}  // namespace verbena::kv
