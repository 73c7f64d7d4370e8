// What the server offers. A client needs the declarations only.
#pragma once

#include <verbena/rpc.h>

#include <string>
#include <string_view>

struct Order {
	std::string item;
	int count = 0;
	MSGPACK_DEFINE(item, count)
};

std::string_view echo(std::string_view str);                    // plain: runs at once
verbena::rpc::Lazy<double> price(Order order);                  // coroutine: may wait
void reverse(verbena::rpc::context<std::string>, std::string_view text);  // callback: answers when it likes, on any thread
void keep();             // takes and gives an attachment
