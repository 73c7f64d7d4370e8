// SPDX-License-Identifier: Apache-2.0
// rpc_test_server: the server of the tests, in a process of its own. It prints its port, and stops
// when its standard input ends.
//
//     rpc_test_server THREADS TRANSPORT [PORT]
//
//     tcp, tls, rdma, both      TCP in plain text; TCP in TLS; RDMA; RDMA and TCP
//     rdma-own                  RDMA with receive blocks of each connection's own
//     rdma-wait, rdma-close     12 MiB of memory; a message that finds none waits, or is refused
//     tcp-old                   without streams, as a server of protocol level 1
//     tcp-wide                  TCP in plain text with the default limits
//     tcp-any                   TCP in plain text at all addresses of the host
//     rdma-any                  RDMA at all addresses of the host, by the devices of the addresses
//     rpc_test_server --print-config    prints the default limits
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/rpc/testing/allocations.h"
#include "lib/rpc/testing/functions.h"

int main(int, char** arguments) {
	using namespace verbena::rpc;
	if (std::strcmp(arguments[1], "--print-config") == 0) {
		for (const auto& [name, value] : describe(server_config()))
			std::printf("%s = %s\n", name.c_str(), value.c_str());
		return 0;
	}
	const std::string transport = arguments[2];
	Server server({.address = transport.ends_with("-any") ? "0.0.0.0" : "127.0.0.1",
		.port = static_cast<std::uint16_t>(arguments[3] != nullptr ? std::atoi(arguments[3]) : 0),
		.thread_num = static_cast<unsigned>(std::atoi(arguments[1])),
		.limits = transport == "tcp-wide" ? ConnectionLimits()
										  : ConnectionLimits{.frame = {.body_max = 1 << 20, .attachment_max = 16 << 20},
												.streams_max = transport == "tcp-old" ? 0u : 300u}});
	rpc_test::Counter counter;
	rpc_test::register_all(server, counter);
	server.register_handler<rpc_test::count_of_allocations>();
	ibv_config ibv = rpc_test::test_ibv();
	if (transport == "rdma-own") ibv.recv_mode = recv_mode_t::per_connection;
	if (transport == "rdma-wait" || transport == "rdma-close") ibv.buffer_pool_config.max_memory_usage = 12 << 20;
	if (transport == "rdma-close") ibv.watermark = verbena::channel::Watermark::close;
	if (transport == "rdma-any") ibv.device.clear();
	if (transport.starts_with("rdma") || transport == "both") server.init_ibv(ibv);
	if (transport == "tls") server.init_ssl();
	const Server::Started started = server.async_start();
	if (started.hasResult()) return 1;
	std::printf("%u\n", server.port());
	std::fflush(stdout);
	while (std::getchar() != EOF) {}
	server.stop();
	return started.get() == errc::ok ? 0 : 1;
}
