// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/journal_format.h"

#include <openssl/sha.h>

#include "lib/kv/hash.h"

namespace verbena::kv {
namespace {

// The first byte of a name: a short key follows, the hash of a long key, or a note's name. Capital
// letters in format 2, small ones in format 1.
constexpr char short_key = 'K', long_key = 'L', note_letter = 'N';
constexpr char short_key_1 = 'k', long_key_1 = 'l', note_letter_1 = 'a';
constexpr std::size_t short_max = 510;

std::uint64_t checksum_of(std::string_view name, const void* content, std::size_t bytes) {
	return hash_of(
		static_cast<const std::byte*>(content) + sizeof(std::uint64_t), bytes - sizeof(std::uint64_t), hash_of(name));
}

}  // namespace

std::string name_of_key(std::string_view key) {
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

std::string name_of_note(std::string_view note) { return note_letter + std::string(note); }

std::size_t record_bytes(std::string_view key, Bytes value) {
	return sizeof(RecordHeader) + (key.size() > short_max ? key.size() : 0) + value.size();
}

std::uint64_t write_record(
	std::byte* place, std::string_view name, std::string_view key, Bytes value, const Stamp& stamp) {
	RecordHeader header{.version = stamp.version, .expires = stamp.expires};
	std::byte* at = place + sizeof header;
	if (key.size() > short_max) {
		header.key_length = static_cast<std::uint32_t>(key.size());
		std::memcpy(at, key.data(), key.size());
		at += key.size();
	}
	if (!value.empty()) std::memcpy(at, value.data(), value.size());
	std::memcpy(place, &header, sizeof header);
	header.checksum = checksum_of(name, place, record_bytes(key, value));
	std::memcpy(place, &header.checksum, sizeof header.checksum);
	return header.checksum;
}

std::optional<Record> read_record(std::string_view name, std::string_view content) {
	RecordHeader header;
	if (name.empty() || content.size() < sizeof header) return {};
	std::memcpy(&header, content.data(), sizeof header);
	if (header.checksum != checksum_of(name, content.data(), content.size())) return {};
	Record record{.is_note = name.front() == note_letter,
		.key = name.substr(1),
		.stamp = {.version = header.version, .expires = header.expires},
		.checksum = header.checksum};
	content.remove_prefix(sizeof header);
	if (name.front() == long_key) {
		if (header.key_length <= short_max || header.key_length > key_max || header.key_length > content.size())
			return {};
		record.key = content.substr(0, header.key_length);
		content.remove_prefix(header.key_length);
	} else if (!record.is_note && name.front() != short_key) {
		return {};
	}
	record.value = bytes_of(content);
	return record;
}

std::optional<Record> read_record_1(std::string_view name, std::string_view content) {
	Record record{.is_note = name.front() == note_letter_1, .key = name.substr(1)};
	if (name.front() == long_key_1) {
		std::uint32_t length = 0;
		if (content.size() >= sizeof length) std::memcpy(&length, content.data(), sizeof length);
		if (length <= short_max || length > key_max || content.size() - sizeof length < length) return {};
		record.key = content.substr(sizeof length, length);
		content.remove_prefix(sizeof length + length);
	} else if (!record.is_note && name.front() != short_key_1) {
		return {};
	}
	record.value = bytes_of(content);
	return record;
}

std::string damaged_name(std::string_view name) {
	constexpr std::size_t shown_max = 60;
	if (name.empty() || (name.front() != short_key && name.front() != long_key)) return "a record of the server";
	if (name.front() == long_key) return "a key of more than " + std::to_string(short_max) + " bytes";
	std::string text = "the key ";
	for (const char each : name.substr(1, shown_max)) text.push_back(each >= ' ' && each <= '~' ? each : '?');
	return name.size() > shown_max + 1 ? text + "..." : text;
}

}  // namespace verbena::kv
