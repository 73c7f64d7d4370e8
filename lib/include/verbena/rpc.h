// Coroutine RPC over TCP and RDMA: the whole of it (docs/rpc.md).
//
// The names of coro_rpc, for programs that were written for it: its published examples compile after their include and
// namespace lines have changed to
//
//     #include <verbena/rpc.h>
//     using namespace verbena;
//     using namespace verbena::rpc;
#pragma once

#include "lib/rpc/client.h"
#include "lib/rpc/client_pool.h"
#include "lib/rpc/load_balancer.h"
#include "lib/rpc/server.h"

namespace verbena {

namespace rpc {
using coro_rpc_server = Server;
using coro_rpc_client = Client;
}  // namespace rpc

namespace coro_rpc = rpc;
namespace coro_io = rpc;

}  // namespace verbena
