// SPDX-License-Identifier: Apache-2.0
// Coroutine RPC over TCP and RDMA. A program includes this header alone (docs/rpc.md).
//
//     Server          registers functions and serves them            lib/rpc/server.h
//     Client          calls them over one connection                 lib/rpc/client.h
//     client_pool     shares connections to one server               lib/rpc/client_pool.h
//     load_balancer   spreads requests over several servers          lib/rpc/load_balancer.h
//     context<T>      answers a call later, from any thread          lib/rpc/context.h
//     stream<In, Out> items that a function reads and writes         lib/rpc/stream.h
//     Registration    enters a server into a list that etcd keeps    lib/discovery/members.h
//
// The aliases below are the names that the library coro_rpc uses. The published
// examples of coro_rpc compile once their include and namespace lines are replaced by
//
//     #include <verbena/rpc.h>
//     using namespace verbena;
//     using namespace verbena::rpc;
//
// Threads: each header states which thread may call what.
// Errors: a call returns an std::expected with an rpc_error (lib/rpc/errors.h). syncAwait() and
//   collectAll() rethrow the exception of a task.
#pragma once

#include "lib/discovery/members.h"
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
