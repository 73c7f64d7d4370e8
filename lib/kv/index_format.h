// SPDX-License-Identifier: Apache-2.0
// The format of the area that a server publishes for one-sided GETs (docs/kv.md, "One-sided GETs").
//
// The area begins with lines of 256 bytes. The hash of a key selects its one line. The line holds
// the value and the key, or says where in the area they lie. If the line is empty or holds another
// key, the client asks by message.
//
// The server writes while clients read, so a reader checks everything. The line's first 40 bytes
// have a checksum; value and key together have another one, which depends on the line's version. If
// a checksum does not match, the reader saw a torn line or record and reads again.
//
// Threads: any; pure functions over bytes.
// Errors: bytes come from a peer: nothing that a reader returns lies outside of the area.
#pragma once

#include "lib/kv/hash.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

struct LineHeader {
	std::uint64_t checksum = 0;     // own_checksum()
	std::uint64_t hash = 0;         // index_hash() of the key
	std::uint64_t content = 0;      // content_checksum() of value and key
	std::uint32_t version = 0;      // one more with each change of the line
	std::uint32_t value_length = 0;
	std::uint32_t offset = 0;       // where value and key lie in the area; 0: behind this header
	std::uint16_t key_length = 0;   // 0: the line is empty
	std::uint16_t reserved = 0;

	std::uint64_t own_checksum() const { return hash_of(&hash, sizeof *this - sizeof checksum); }
	std::uint32_t record_bytes() const { return value_length + key_length; }
};
static_assert(sizeof(LineHeader) == 40);

inline constexpr std::uint32_t line_bytes = 256;
// Value and key lie in their line if they have at most this many bytes together.
inline constexpr std::uint32_t inside_max = line_bytes - sizeof(LineHeader);

// True if an area of this many bytes can have this shape; a client checks what the server says.
inline bool is_possible(const IndexShape& shape, std::uint64_t area_bytes) {
	return std::has_single_bit(shape.lines) && std::uint64_t{shape.lines} * line_bytes <= area_bytes;
}
inline std::uint64_t index_hash(std::string_view key, std::uint64_t seed) { return hash_of(key, seed); }
inline std::uint64_t content_checksum(const void* record, std::size_t bytes, std::uint32_t version) {
	return hash_of(record, bytes, version);
}

enum class Seen : std::uint8_t {
	absent,   // the line is empty, or another key's
	torn,     // the line or its record changed while it was read
	inside,   // the value is in the line
	outside,  // value and key are at `header.offset`
};

struct SeenLine {
	Seen seen = Seen::absent;
	LineHeader header;
	Bytes value;  // Seen::inside: points into the line that was read
};

// Interprets a line that was read. `hash` is the key's, `area_bytes` the size of the whole area.
SeenLine read_line(Bytes line, std::string_view key, std::uint64_t hash, std::uint64_t area_bytes);

// Checks value and key that were read from where a line said: outside, torn or, if they belong to
// another key, absent.
Seen read_record(Bytes record, const LineHeader& header, std::string_view key);

}  // namespace verbena::kv
