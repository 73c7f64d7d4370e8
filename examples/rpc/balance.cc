// SPDX-License-Identifier: Apache-2.0
// rpc_balance HOST:PORT...: makes 30 calls, in turn to each server that can be reached.
#include <cstdio>
#include <map>

#include "functions.h"

using namespace verbena;
using namespace verbena::rpc;

Lazy<int> run(std::vector<std::string> servers) {
	const auto balancer = load_balancer<coro_rpc_client>::create(servers);
	std::map<std::string, int> calls;
	for (int i = 0; i < 30; ++i) {
		const auto call = [&](client_reuse_hint, coro_rpc_client& client) {
			++calls[client.path().peer];
			return client.send_request<echo>("hello");
		};
		auto sent = co_await balancer->send_request(call);
		if (!sent) co_return failed(sent.error());
		const auto result = co_await std::move(*sent);
		if (!result) co_return failed(result.error());
	}
	for (const auto& [server, count] : calls) std::printf("%s: %d\n", server.c_str(), count);
	co_return 0;
}

int main(int count, char** words) {
	if (count > 1) return syncAwait(run({words + 1, words + count}));
	std::fprintf(stderr, "usage: %s HOST:PORT...\n", words[0]);
	return 2;
}
