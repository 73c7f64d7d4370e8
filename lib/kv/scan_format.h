// SPDX-License-Identifier: Apache-2.0
// The bytes of SCAN: a page of keys, and the cursor that continues behind it.
//
// The value of a request is a ScanRequest. The value of an answer is a ScanCursor, and then, for
// each key, its length (2 bytes) and its bytes.
//
// Threads: any; values and pure functions.
#pragma once

#include <cstdint>
#include <cstring>
#include <expected>
#include <string_view>
#include <vector>

#include "lib/kv/wire.h"

namespace verbena::kv {

// A place in the walk over all keys of a server. The bytes are the server's: a client sends back
// those that it got. All zero: the begin, or in an answer, the end.
struct ScanCursor {
	std::uint64_t walk = 0;      // a random number of the table; for another, a walk begins again
	std::uint64_t position = 0;  // counts buckets, with its bits reversed (Store::scan())

	bool operator==(const ScanCursor&) const = default;
};
static_assert(sizeof(ScanCursor) == 16);

struct ScanRequest {
	ScanCursor from;
	std::uint32_t keys_max = 0;  // keys in the page, at most; a bucket more, or fewer, may come
	std::uint32_t reserved = 0;
};
static_assert(sizeof(ScanRequest) == 24);

inline Bytes bytes_of(const ScanRequest& request) { return std::as_bytes(std::span(&request, 1)); }

// Reads the value of a request, whose length Requests::next() has checked.
inline ScanRequest read_scan_request(Bytes value) {
	ScanRequest request;
	std::memcpy(&request, value.data(), sizeof request);
	return request;
}

struct ScanPage {
	ScanCursor next;
	std::vector<std::string_view> keys;  // in the bytes that were read
};

// Begins a page, whose cursor finish_page() writes.
inline std::vector<std::byte> begin_page() { return std::vector<std::byte>(sizeof(ScanCursor)); }
inline void append_key(std::vector<std::byte>& page, std::string_view key) {
	const auto length = static_cast<std::uint16_t>(key.size());
	append(page, std::as_bytes(std::span(&length, 1)));
	append(page, bytes_of(key));
}
inline void finish_page(std::vector<std::byte>& page, const ScanCursor& next) {
	std::memcpy(page.data(), &next, sizeof next);
}

inline std::expected<ScanPage, Malformed> read_page(Bytes value) {
	ScanPage page;
	if (value.size() < sizeof page.next) return std::unexpected(Malformed::length);
	std::memcpy(&page.next, value.data(), sizeof page.next);
	for (Bytes rest = value.subspan(sizeof page.next); !rest.empty();) {
		std::uint16_t length = 0;
		if (rest.size() < sizeof length) return std::unexpected(Malformed::length);
		std::memcpy(&length, rest.data(), sizeof length);
		rest = rest.subspan(sizeof length);
		if (length == 0 || length > key_max) return std::unexpected(Malformed::key);
		if (rest.size() < length) return std::unexpected(Malformed::length);
		page.keys.push_back(text_of(rest.first(length)));
		rest = rest.subspan(length);
	}
	return page;
}

}  // namespace verbena::kv
