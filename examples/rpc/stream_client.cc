// SPDX-License-Identifier: Apache-2.0
// rpc_stream_client PORT [rdma]: reads from a stream, writes to one, and does both on a third.
#include <cstdio>

#include "streams.h"

using namespace verbena::rpc;

Lazy<int> run(std::string address, bool rdma) {
	Client client;
	if (rdma) client.init_ibv();
	if (auto ec = co_await client.connect(address); ec) co_return failed({ec, client.error_text()});
	auto numbers = co_await client.open_stream<primes>(5);
	if (!numbers) co_return failed(numbers.error());
	for (auto next = co_await numbers->read(); next && *next; next = co_await numbers->read()) std::printf("%d ", **next);
	auto ended = co_await numbers->finish();  // or an error of the function or the connection
	if (!ended) co_return failed(ended.error());
	std::printf("and that is all\n");
	auto averaging = co_await client.open_stream<mean>();
	if (!averaging) co_return failed(averaging.error());
	for (int i = 1; i <= 1000; ++i) co_await averaging->write(i);  // waits if the server is slow
	auto average = co_await averaging->finish();
	if (!average) co_return failed(average.error());
	std::printf("mean: %.1f\n", *average);
	const stream_config_t config{.timeout = std::chrono::seconds(5)};  // for the whole stream
	auto talk = co_await client.open_stream<shout>(config, "!");
	if (!talk) co_return failed(talk.error());
	co_await talk->write("hello");
	auto louder = co_await talk->read();
	if (louder && *louder) std::printf("shout: %s\n", (*louder)->c_str());
	auto count = co_await talk->finish();
	if (!count) co_return failed(count.error());
	std::printf("%d word\n", *count);
	co_return 0;
}

int main(int count, char** words) {
	const std::string port = port_argument(count, words, "PORT [rdma]");
	return syncAwait(run("127.0.0.1:" + port, count > 2));
}
