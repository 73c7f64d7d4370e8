// SPDX-License-Identifier: Apache-2.0
// Scan: a walk over the keys of all servers of a router, page by page.
//
//     Scan scan(*router, "user:");
//     while (!scan.done()) {
//         auto keys = co_await scan.next();  // std::expected<std::vector<std::string>, Error>
//         ...
//     }
//
// A key that exists from the begin to the end of the walk comes at least once, whatever is changed
// meanwhile; it may come more than once. A key that is set or deleted during the walk may come or
// not. The order is that of hashes.
//
// Threads: one, that of the router's loop.
// Lifetime: dies before the router. One next() at a time.
// Errors: after an error the walk stays where it was, so next() may be called again. A server that
//   starts again with its content is walked over from the begin. The servers are those that the
//   router had at the begin of the walk; with Error::unavailable skip() leaves one out.
#pragma once

#include <string>
#include <vector>

#include "lib/kv/router.h"
#include "lib/kv/scan_format.h"

namespace verbena::kv {

class Scan {
public:
	// Walks over the keys with this prefix; empty: all. A page has about `keys_max` keys at most,
	// and often fewer, or none: a server looks at a bounded part of its table for each.
	explicit Scan(Router& router, std::string prefix = {}, std::uint32_t keys_max = 1000)
		: router_(router), servers_(router.servers()), prefix_(std::move(prefix)), request_{.keys_max = keys_max} {}
	Scan(const Scan&) = delete;
	Scan& operator=(const Scan&) = delete;

	bool done() const { return server_ == servers_.size(); }
	// The server of the next page; not when done().
	const std::string& server() const { return servers_[server_]; }
	// The next page. Not when done().
	async::Task<Result<std::vector<std::string>>> next();
	// Leaves out the rest of this server. Not when done().
	void skip() {
		++server_;
		request_.from = {};
	}

private:
	Router& router_;
	std::vector<std::string> servers_;
	std::size_t server_ = 0;  // index of the present one
	std::string prefix_;
	ScanRequest request_;
};

}  // namespace verbena::kv
