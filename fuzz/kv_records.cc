// SPDX-License-Identifier: Apache-2.0
// Fuzzes the message readers of the key-value store's client and server: every part that a reader
// returns lies inside the message, and writing the records again gives the same bytes.
#include <algorithm>

#include "base/check.h"
#include "lib/kv/scan_format.h"

namespace verbena::fuzz {
namespace {

using kv::append;
using kv::bytes_of;

bool lies_in(kv::Bytes part, kv::Bytes whole) {
	return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

bool begins_with(kv::Bytes message, kv::Bytes part) {
	return part.size() <= message.size() && std::ranges::equal(part, message.first(part.size()));
}

void read_requests(kv::Bytes message) {
	std::vector<std::byte> again;
	for (kv::Requests requests(message); !requests.done();) {
		const auto request = requests.next();
		if (!request) break;
		check(
			lies_in(request->key, message) && lies_in(request->value, message), "keys and values lie in their message");
		kv::RequestHeader header = request->header;
		if (request->id) header = with_id(header);
		if (request->versioned) header = with_version(header);
		if (request->ttl_ms != 0) header = with_ttl(header);
		append(again, header);
		if (request->id) append(again, bytes_of(*request->id));
		if (request->versioned && header.operation != kv::Operation::get)
			append(again, std::as_bytes(std::span(&request->expected, 1)));
		if (request->ttl_ms != 0) append(again, std::as_bytes(std::span(&request->ttl_ms, 1)));
		append(again, request->key);
		append(again, request->value);
		if (request->header.operation == kv::Operation::set_read) append(again, bytes_of(request->remote));
	}
	check(begins_with(message, again), "requests are written as they were read");
}

void read_answers(kv::Bytes message) {
	std::vector<std::byte> again;
	for (kv::Answers answers(message); !answers.done();) {
		const auto answer = answers.next();
		if (!answer) break;
		check(lies_in(answer->value, message), "values lie in their message");
		append(again, answer->header);
		if (answer->header.versioned == 1) append(again, std::as_bytes(std::span(&answer->version, 1)));
		append(again, answer->value);
		const bool where = answer->header.status == kv::Status::place || answer->header.status == kv::Status::remote;
		const bool index = answer->header.status == kv::Status::index;
		if (where || index) append(again, bytes_of(answer->remote));
		if (index) append(again, bytes_of(answer->shape));
	}
	check(begins_with(message, again), "answers are written as they were read");
}

void read_keys(kv::Bytes message) {
	const auto page = kv::read_page(message);
	if (!page) return;
	std::vector<std::byte> again = kv::begin_page();
	for (const std::string_view key : page->keys) {
		check(lies_in(bytes_of(key), message), "keys lie in their page");
		kv::append_key(again, key);
	}
	kv::finish_page(again, page->next);
	check(std::ranges::equal(again, message), "a page is written as it was read");
}

}  // namespace
}  // namespace verbena::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
	const verbena::kv::Bytes message = std::as_bytes(std::span(data, size));
	(void)verbena::kv::read_hello(message, verbena::kv::Hello::from_client);
	verbena::fuzz::read_requests(message);
	verbena::fuzz::read_answers(message);
	verbena::fuzz::read_keys(message);
	return 0;
}
