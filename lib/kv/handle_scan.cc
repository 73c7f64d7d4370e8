// SPDX-License-Identifier: Apache-2.0
// The part of Handle that walks over the keys of all servers: kv_scan().
#include <algorithm>
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

// Asks a server for a page.
class PageQuery final : public Getting, private CallEnd {
public:
	PageQuery(Router& router, const std::string& server, std::string_view prefix, const ScanRequest& request)
		: Getting(router.maker(), Kind::scan, server, prefix, bytes_of(request)) {}
	// Begins; `done` is true at the end.
	void begin() { Call::begin(*this); }
	bool done() const { return done_; }

private:
	void ended(Call&) override {}
};

}  // namespace

int Handle::scan(
	kv_cursor& cursor, std::string_view prefix, std::uint32_t keys_max, kv_key** keys, std::size_t* count) {
	// The list may change while the call waits.
	const std::vector<std::string> servers = router->servers();
	const std::string* const server = server_from(servers, cursor.server);
	// A server that has left takes its keys along.
	if (server == nullptr) {
		cursor = {.done = 1};
		return KV_OK;
	}
	ScanRequest request{.keys_max = keys_max == 0 ? keys_max_default : keys_max};
	if (rank_of(*server) == cursor.server) request.from = {.walk = cursor.walk, .position = cursor.position};
	PageQuery query(*router, *server, prefix, request);
	query.begin();
	loop().run_until([&] { return query.done(); });
	const Result<Fetched> answer = query.await_resume();
	if (!answer) {
		const int result = fail(answer.error(), {});
		last_error = *server + ": " + std::string(sentence_of(answer.error()));
		return result;
	}
	// The client has checked the answer.
	const ScanPage page = *read_page(answer->bytes());
	if (!page.keys.empty()) {
		*keys = give_keys(page);
		if (*keys == nullptr) return fail(Error::no_memory, {});
		*count = page.keys.size();
	}
	if (page.next != ScanCursor{}) {
		cursor = {.server = rank_of(*server), .walk = page.next.walk, .position = page.next.position};
		return KV_OK;
	}
	const std::uint64_t next = rank_of(*server) + 1;
	cursor = {.server = next, .done = server_from(servers, next) == nullptr ? 1 : 0};
	return KV_OK;
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
