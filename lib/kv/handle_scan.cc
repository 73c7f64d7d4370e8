// SPDX-License-Identifier: Apache-2.0
// The part of Handle that walks over the keys of all servers: kv_scan() and KV_OP_SCAN.
#include <cstring>

#include "lib/kv/handle.h"
#include "lib/kv/hash.h"
#include "lib/kv/scan_format.h"

namespace verbena::kv {
namespace {

constexpr std::uint32_t keys_max_default = 1000;

// The servers in the order of a walk, which does not depend on the others that there are: by the
// hashes of their names, and never 0, which stands for the begin.
std::uint64_t rank_of(std::string_view server) { return hash_of(server) | 1; }

// The server with the least rank from this one on; null: there is none.
const std::string* server_from(const std::vector<std::string>& servers, std::uint64_t rank) {
	const std::string* first = nullptr;
	for (const std::string& each : servers)
		if (rank_of(each) >= rank && (first == nullptr || rank_of(each) < rank_of(*first))) first = &each;
	return first;
}

}  // namespace

// The request for the page behind a cursor. Without a server, the walk has come to its end.
Submission::Request Handle::page_request(
	const kv_cursor& cursor, std::string_view prefix, std::uint32_t keys_max) const {
	Submission::Request request{.kind = Call::Kind::scan, .key = prefix};
	request.page.keys_max = keys_max == 0 ? keys_max_default : keys_max;
	const std::string* const server = server_from(router->servers(), cursor.server);
	if (server == nullptr) return request;
	request.server = *server;
	if (rank_of(*server) == cursor.server) request.page.from = {.walk = cursor.walk, .position = cursor.position};
	return request;
}

// Gives the caller the page that was fetched, and moves the cursor behind it.
int Handle::take_page(Submission& operation, kv_cursor& cursor, kv_key** keys, std::size_t* count) {
	// A server that has left takes its keys along.
	if (operation.server.empty()) {
		cursor = {.done = 1};
		return KV_OK;
	}
	// The client has checked the answer.
	const ScanPage page = *read_page(operation.fetched().bytes());
	if (!page.keys.empty()) {
		*keys = give_keys(page);
		if (*keys == nullptr) return fail(Error::no_memory, {});
		*count = page.keys.size();
	}
	const std::uint64_t rank = rank_of(operation.server);
	if (page.next != ScanCursor{}) cursor = {.server = rank, .walk = page.next.walk, .position = page.next.position};
	else cursor = {.server = rank + 1, .done = server_from(router->servers(), rank + 1) == nullptr ? 1 : 0};
	return KV_OK;
}

int Handle::fail_page(const Submission& operation, Error error) {
	const int result = fail(error, {});
	last_error = operation.server + ": " + std::string(sentence_of(error));
	return result;
}

int Handle::scan(
	kv_cursor& cursor, std::string_view prefix, std::uint32_t keys_max, kv_key** keys, std::size_t* count) {
	Submission operation(*router, page_request(cursor, prefix, keys_max));
	if (!operation.server.empty())
		if (const auto done = run(operation, 0); !done) return fail_page(operation, done.error());
	return take_page(operation, cursor, keys, count);
}

// The array and the bytes of its keys are one block.
kv_key* Handle::give_keys(const ScanPage& page) {
	std::size_t size = page.keys.size() * sizeof(kv_key);
	for (const std::string_view key : page.keys) size += key.size() + 1;
	Fetched block{.heap = channel::make_heap_block(headroom + size), .offset = headroom, .size = size};
	if (!block.heap) return nullptr;
	auto* const array = reinterpret_cast<kv_key*>(block.data());
	char* text = reinterpret_cast<char*>(array + page.keys.size());
	for (std::size_t i = 0; i < page.keys.size(); ++i) {
		const std::string_view key = page.keys[i];
		array[i] = {.key = text, .key_length = key.size()};
		std::memcpy(text, key.data(), key.size());
		text[key.size()] = '\0';
		text += key.size() + 1;
	}
	return reinterpret_cast<kv_key*>(give(std::move(block)));
}

}  // namespace verbena::kv
