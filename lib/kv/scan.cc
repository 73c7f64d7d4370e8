// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/scan.h"

namespace verbena::kv {

async::Task<Result<std::vector<std::string>>> Scan::next() {
	auto answer = co_await router_.scan(server(), prefix_, request_);
	if (!answer) co_return std::unexpected(answer.error());
	// The client has checked the answer.
	const auto page = read_page(answer->bytes());
	std::vector<std::string> keys(page->keys.begin(), page->keys.end());
	request_.from = page->next;
	if (request_.from == ScanCursor{}) skip();
	co_return keys;
}

}  // namespace verbena::kv
