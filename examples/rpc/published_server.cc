// SPDX-License-Identifier: Apache-2.0
// coro_rpc's published server. Only the include and namespace lines differ, and echo's parameter:
// it was a std::string by value, to which the returned view would have dangled.
#include <verbena/rpc.h>
using namespace verbena;
using namespace verbena::rpc;

std::string_view echo(std::string_view str) { return str; }

int main() {
	coro_rpc_server server(/*thread_number*/ std::thread::hardware_concurrency(), /*port*/ 9000);
	server.register_handler<echo>();
	server.init_ibv();  // Initialize RDMA resources
	server.start();
}
