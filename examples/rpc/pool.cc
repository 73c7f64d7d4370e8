// SPDX-License-Identifier: Apache-2.0
// rpc_pool PORT: 100 requests in flight, on connections that a pool makes, shares and replaces.
#include <cstdio>
#include <vector>

#include "functions.h"

using namespace verbena;
using namespace verbena::rpc;

Lazy<int> run(std::string url) {
	auto pool = coro_io::client_pool<coro_rpc_client>::create(url, {.max_connection = 4});
	std::vector<Lazy<async_rpc_result<std::string_view>>> under_way;
	for (int i = 0; i < 100; ++i) {
		auto sent =
			co_await pool->send_request([&](client_reuse_hint, coro_rpc_client& client) { return client.send_request<echo>("hello"); });
		if (!sent) co_return failed(sent.error());
		under_way.push_back(std::move(*sent));
	}
	auto results = co_await collectAll(std::move(under_way));
	int good = 0;
	for (const auto& each : results) good += each && each.value() == "hello";
	std::printf("%d of 100 on %zu connection\n", good, pool->total_client_count());
	co_return good == 100 ? 0 : 1;
}

int main(int count, char** words) {
	return syncAwait(run("127.0.0.1:" + std::string(port_argument(count, words, "PORT"))));
}
