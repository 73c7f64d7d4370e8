// The server of the tests, in a process of its own: prints its port, and stops when its standard input ends.
//
//     rpc_test_server THREADS tcp|tls|rdma|both [PORT]
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/rpc/testing/functions.h"

int main(int, char** arguments) {
	using namespace verbena::rpc;
	Server server({.address = "127.0.0.1",
		.port = static_cast<std::uint16_t>(arguments[3] != nullptr ? std::atoi(arguments[3]) : 0),
		.thread_num = static_cast<unsigned>(std::atoi(arguments[1])),
		.limits = {.frame = {.body_max = 1 << 20, .attachment_max = 16 << 20}}});
	rpc_test::Counter counter;
	rpc_test::register_all(server, counter);
	const std::string transport = arguments[2];
	if (transport == "rdma" || transport == "both") server.init_ibv();
	if (transport == "tls") server.init_ssl();
	const Server::Started started = server.async_start();
	if (started.hasResult()) return 1;
	std::printf("%u\n", server.port());
	std::fflush(stdout);
	while (std::getchar() != EOF) {}
	server.stop();
	return started.get() == errc::ok ? 0 : 1;
}
