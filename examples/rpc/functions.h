// SPDX-License-Identifier: Apache-2.0
// The functions of the example server. A client needs only these declarations.
#pragma once

#include <verbena/rpc.h>

#include <string>
#include <string_view>

#include "arguments.h"

struct Order {
	std::string item;
	int count = 0;
	MSGPACK_DEFINE(item, count)
};

// A plain function runs at once, on the connection's I/O thread.
std::string_view echo(std::string_view str);
// A coroutine may wait; other calls are served meanwhile.
verbena::rpc::Lazy<double> price(Order order);
// A callback may answer later, from any thread.
void reverse(verbena::rpc::context<std::string>, std::string_view text);
// A plain function that returns the request's attachment as the response's.
void keep();
