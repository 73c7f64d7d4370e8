// SPDX-License-Identifier: Apache-2.0
// rpc_server PORT [rdma]: serves the functions of functions.h until its input ends.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "functions.h"

using namespace verbena;
using namespace verbena::rpc;

std::string_view echo(std::string_view str) { return str; }

Lazy<double> price(Order order) {
	co_await IoThread::current()->loop().sleep_for(1'000'000);  // other calls are served meanwhile
	if (order.count <= 0) throw rpc_error{10400, "order at least one"};
	co_return order.count * 2.5;
}

void reverse(context<std::string> answer, std::string_view text) {
	std::thread([answer, copy = std::string(text)]() mutable {
		std::reverse(copy.begin(), copy.end());
		answer.response_msg(copy);
	}).detach();
}

void keep() { get_context()->set_response_attachment(get_context()->get_request_attachment()); }

int main(int count, char** words) {
	const auto port = static_cast<std::uint16_t>(std::stoi(port_argument(count, words, "PORT [rdma]")));
	coro_rpc_server server(/*threads=*/2, port, "127.0.0.1");
	server.register_handler<echo, price, reverse, keep>();
	if (count > 2) server.init_ibv();  // clients over TCP are served as well
	auto started = server.async_start();             // or start(), which blocks
	if (started.hasResult()) return 1;
	std::printf("listening at %u\n", server.port());
	std::fflush(stdout);
	while (std::getchar() != EOF) {}
	server.stop();
}
