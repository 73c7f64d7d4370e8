// SPDX-License-Identifier: Apache-2.0
// rpc_test_client: a client for test_hostile_server.py, in a process of its own. It prints the
// outcome of one call, stream or attachment, and then of a plain call: "ok" and the result, or the
// error's code and text.
//
//     rpc_test_client PORT|ADDRESS:PORT call|attachment|stream SECONDS [rdma]
//
// SECONDS is the timeout for connecting and for the first call. The default address is 127.0.0.1.
#include <verbena/rpc.h>

#include <array>
#include <cstdio>
#include <string>

using namespace verbena::rpc;

std::string echo(std::string_view text);
void keep();
Lazy<int> count(stream_writer<int> out, int to);

std::string words(const rpc_error& error) { return "error " + std::to_string(error.val()) + " " + error.msg; }

Lazy<std::string> call(Client& client, std::string_view text) {
	const auto result = co_await client.call<echo>(text);
	co_return result ? "ok " + *result : words(result.error());
}

Lazy<std::string> take_attachment(Client& client) {
	std::array<char, 16> room{};
	client.set_resp_attachment_buf(room);
	const auto result = co_await client.call<keep>();
	co_return result ? "ok " + std::to_string(client.get_resp_attachment().size()) : words(result.error());
}

Lazy<std::string> read_items(Client& client, std::chrono::seconds patience) {
	const stream_config_t config{.timeout = patience};
	auto numbers = co_await client.open_stream<count>(config, 3);
	if (!numbers) co_return words(numbers.error());
	int items = 0;
	auto next = co_await numbers->read();
	for (; next && *next; next = co_await numbers->read()) ++items;
	if (!next) co_return words(next.error());
	const auto ended = co_await numbers->finish();
	co_return ended ? "ok " + std::to_string(items) : words(ended.error());
}

Lazy<void> run(std::string server, std::string what, std::chrono::seconds patience, bool rdma) {
	Client client;
	if (rdma) client.init_ibv();
	client.init_config({.connect_timeout_duration = patience, .request_timeout_duration = patience});
	// Named, because GCC 12 destroys a conditional temporary within co_await twice.
	const std::string address = server.find(':') != std::string::npos ? server : "127.0.0.1:" + server;
	if (auto failed = co_await client.connect(address); failed) {
		std::printf("error %d %s\n", static_cast<int>(failed.val()), client.error_text().c_str());
		co_return;
	}
	std::string first;
	if (what == "call") first = co_await call(client, "hello");
	if (what == "attachment") first = co_await take_attachment(client);
	if (what == "stream") first = co_await read_items(client, patience);
	client.init_config({.request_timeout_duration = std::chrono::seconds(20)});
	const std::string second = co_await call(client, "again");
	std::printf("%s\n%s\n", first.c_str(), second.c_str());
}

int main(int, char** arguments) {
	syncAwait(run(arguments[1], arguments[2], std::chrono::seconds(std::stoi(arguments[3])), arguments[4] != nullptr));
}
