// SPDX-License-Identifier: Apache-2.0
// rpc_stream_server PORT [rdma]: serves the functions of streams.h until its input ends.
#include "streams.h"

#include <cstdio>

using namespace verbena::rpc;

Lazy<void> primes(stream_writer<int> out, int count) {
	for (int number = 2; count > 0; ++number) {
		bool prime = true;
		for (int divisor = 2; divisor * divisor <= number; ++divisor) prime = prime && number % divisor != 0;
		if (!prime) continue;
		if (!co_await out.write(number)) co_return;  // waits for room; false: the client left
		--count;
	}
}

Lazy<double> mean(stream_reader<double> in) {
	double sum = 0, count = 0;
	for (auto next = co_await in.read(); next && *next; next = co_await in.read(), ++count) sum += **next;
	co_return sum / count;
}

Lazy<int> shout(stream<std::string, std::string> both, std::string mark) {
	int count = 0;
	for (auto next = co_await both.read(); next && *next; next = co_await both.read(), ++count) co_await both.write(**next + mark);
	co_return count;
}

int main(int count, char** words) {
	const int port = std::atoi(port_argument(count, words, "PORT [rdma]"));
	Server server({.address = "127.0.0.1", .port = static_cast<std::uint16_t>(port)});
	server.register_handler<primes, mean, shout>();
	if (count > 2) server.init_ibv();
	auto started = server.async_start();
	std::printf("listening at %u\n", server.port());
	std::fflush(stdout);
	while (std::getchar() != EOF) {}
}
