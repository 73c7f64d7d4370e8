// SPDX-License-Identifier: Apache-2.0
// greeter serve: serves until its standard input ends, and prints its port.
// greeter PORT: calls it. With a second argument, over RDMA.
#include <verbena/rpc.h>

#include <cstdio>
#include <string>

using namespace verbena::rpc;

namespace {

std::string greet(std::string_view name) { return "hello " + std::string(name); }

int serve() {
	Server server(1, 0, "127.0.0.1");
	server.register_handler<greet>();
	server.init_ibv();
	auto started = server.async_start();
	if (started.hasResult()) {
		std::fprintf(stderr, "%s\n", server.error_text().c_str());
		return 1;
	}
	std::printf("%u\n", unsigned{server.port()});
	std::fflush(stdout);
	while (std::getchar() != EOF) {}
	server.stop();
	return 0;
}

Lazy<int> call(std::string address, bool rdma) {
	Client client;
	if (rdma) client.init_ibv();
	if (const auto error = co_await client.connect(address); error) {
		std::fprintf(stderr, "%s\n", client.error_text().c_str());
		co_return 1;
	}
	const auto answer = co_await client.call<greet>("stranger");
	std::printf("%s\n", answer ? answer->c_str() : answer.error().msg.c_str());
	co_return answer ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
	if (argc < 2) return 2;
	if (std::string(argv[1]) == "serve") return serve();
	return syncAwait(call("127.0.0.1:" + std::string(argv[1]), argc > 2));
}
