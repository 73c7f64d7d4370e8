// coro_rpc's published server: only its include and namespace lines are ours, and echo's parameter, which was a std::string by value: a
// view of it would have pointed into what was gone.
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
