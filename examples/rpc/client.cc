// SPDX-License-Identifier: Apache-2.0
// rpc_client PORT [rdma]: calls the functions of functions.h, one of each kind.
#include <cstdio>

#include "functions.h"

using namespace verbena;
using namespace verbena::rpc;

Lazy<int> run(std::string address, bool rdma) {
	coro_rpc_client client{};
	if (rdma) client.init_ibv();
	if (auto ec = co_await client.connect(address); ec) {
		std::printf("%s\n", client.error_text().c_str());
		co_return 1;
	}
	auto text = co_await client.call<echo>("hello rdma");
	if (!text) co_return failed(text.error());  // text.value() would end the program
	std::printf("echo: %s\n", text->c_str());
	// Named, because GCC 12 destroys an aggregate temporary within co_await twice.
	const Order tea{.item = "tea", .count = 4}, nothing{.item = "tea"};
	auto cost = co_await client.call<price>(tea);
	if (!cost) co_return failed(cost.error());
	std::printf("price: %.1f\n", *cost);
	auto refused = co_await client.call<price>(nothing);
	if (!refused) std::printf("error %u: %s\n", refused.error().val(), refused.error().msg.c_str());
	auto backwards = co_await client.call_for<reverse>(std::chrono::seconds(5), "abc");
	if (!backwards) co_return failed(backwards.error());
	std::printf("reverse: %s\n", backwards->c_str());
	co_return 0;
}

int main(int count, char** words) {
	const std::string port = port_argument(count, words, "PORT [rdma]");
	return syncAwait(run("127.0.0.1:" + port, count > 2));
}
