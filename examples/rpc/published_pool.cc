// SPDX-License-Identifier: Apache-2.0
// coro_rpc's published use of a pool. Only the include and namespace lines differ.
#include <verbena/rpc.h>

#include <cassert>
using namespace verbena;
using namespace verbena::rpc;

std::string_view echo(std::string_view str);

Lazy<void> async_request(std::string url) {
	coro_io::client_pool<coro_rpc_client>::pool_config conf{};
	auto pool = coro_io::client_pool<coro_rpc_client>::create(url, conf);
	auto sent = co_await pool->send_request(
		[](coro_io::client_reuse_hint, coro_rpc::coro_rpc_client& client) { return client.send_request<echo>("hello"); });
	assert(sent.has_value());
	auto result = co_await std::move(sent.value());
	assert(result.has_value());
	assert(result.value() == "hello");
}

int main() { syncAwait(async_request("127.0.0.1:9000")); }
