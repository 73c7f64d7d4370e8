// What a server publishes for one-sided GETs, as a client reads it (docs/kv.md): an area of registered memory that
// begins with lines of 256 bytes. A key has one line, by its hash. The line holds the value and the key, or tells where
// in the area they lie; it may hold another key's, or nothing: then the client asks by message.
//
// A reader is not kept from reading while the server writes, so it trusts nothing: a line's first 40 bytes have a
// checksum, and value and key have one, which depends on the line's version. What does not fit together is torn.
//
// Pure functions over bytes.
#pragma once

#include "lib/kv/hash.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

struct LineHeader {
	std::uint64_t checksum = 0;  // of the other fields
	std::uint64_t hash = 0;  // of the key
	std::uint64_t content = 0;  // checksum of value and key, seeded with the version
	std::uint32_t version = 0;
	std::uint32_t value_length = 0;
	std::uint32_t offset = 0;  // in the area, of value and key; 0: they follow
	std::uint16_t key_length = 0;  // 0: nobody's line
	std::uint16_t reserved = 0;

	std::uint64_t own_checksum() const { return hash_of(&hash, sizeof *this - sizeof checksum); }
	std::uint32_t record_bytes() const { return value_length + key_length; }
};
static_assert(sizeof(LineHeader) == 40);

inline constexpr std::uint32_t line_bytes = 256;
inline constexpr std::uint32_t inside_max =
	line_bytes - sizeof(LineHeader);  // value and key together, to lie in their line

inline bool is_possible(const IndexShape& shape, std::uint64_t area_bytes) {
	return std::has_single_bit(shape.lines) && std::uint64_t{shape.lines} * line_bytes <= area_bytes;
}
inline std::uint64_t index_hash(std::string_view key, std::uint64_t seed) { return hash_of(key, seed); }
inline std::uint64_t content_checksum(const void* record, std::size_t bytes, std::uint32_t version) {
	return hash_of(record, bytes, version);
}

enum class Seen : std::uint8_t {
	absent,  // nobody's line, or another key's
	torn,  // it was being written, or its record was
	inside,  // the value is in the line
	outside,  // value and key are at `header.offset`
};

struct SeenLine {
	Seen seen = Seen::absent;
	LineHeader header;
	Bytes value;  // of inside
};

// A line as it was read; `area_bytes`: of the whole area.
SeenLine read_line(Bytes line, std::string_view key, std::uint64_t hash, std::uint64_t area_bytes);

// Value and key as they were read from where a line said. absent: another key's.
Seen read_record(Bytes record, const LineHeader& header, std::string_view key);

}  // namespace verbena::kv
