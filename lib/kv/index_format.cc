// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/index_format.h"

namespace verbena::kv {

// Checks in this order: empty, checksum, key, bounds. Lengths count only once the checksum matches.
SeenLine read_line(Bytes line, std::string_view key, std::uint64_t hash, std::uint64_t area_bytes) {
	SeenLine result;
	LineHeader& header = result.header;
	std::memcpy(&header, line.data(), sizeof header);
	if (header.key_length == 0) return result;
	result.seen = Seen::torn;
	if (header.own_checksum() != header.checksum) return result;
	result.seen = Seen::absent;
	if (header.hash != hash || header.key_length != key.size()) return result;
	const std::uint64_t bytes = std::uint64_t{header.value_length} + header.key_length;
	if (header.offset == 0) {
		if (bytes > inside_max) return result;
		const Bytes record = line.subspan(sizeof header, bytes);
		result.seen = read_record(record, header, key);
		if (result.seen == Seen::outside) result.seen = Seen::inside;
		result.value = record.first(header.value_length);
		return result;
	}
	if (header.value_length <= value_max && header.offset + bytes <= area_bytes) result.seen = Seen::outside;
	return result;
}

Seen read_record(Bytes record, const LineHeader& header, std::string_view key) {
	if (content_checksum(record.data(), record.size(), header.version) != header.content) return Seen::torn;
	return text_of(record.subspan(header.value_length)) == key ? Seen::outside : Seen::absent;
}

}  // namespace verbena::kv
