// SPDX-License-Identifier: Apache-2.0
// coro_rpc's published client. Only the include and namespace lines differ.
#include <verbena/rpc.h>

#include <cassert>
using namespace verbena;
using namespace verbena::rpc;

std::string_view echo(std::string_view str);

Lazy<void> async_request() {
	coro_rpc_client client{};
	client.init_ibv();  // Initialize RDMA resources
	co_await client.connect("127.0.0.1:9000");
	auto result = co_await client.call<echo>("hello rdma");
	assert(result.value() == "hello rdma");
}

int main() { syncAwait(async_request()); }
