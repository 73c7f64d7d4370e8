// SPDX-License-Identifier: Apache-2.0
// kv_example_client SERVER: coroutines, with 100 operations of one connection under way at once.
#include <verbena/kv_client.h>

#include <cstdio>
#include <string>

using namespace verbena;
using async::Task;

Task<void> set(kv::Router& client, std::string key, std::string value, int& left) {
	const kv::Bytes bytes = kv::bytes_of(std::string_view(value));
	const auto done = co_await client.set(key, bytes);  // the server has acknowledged it
	if (!done) std::fprintf(stderr, "%s: %s\n", key.c_str(), std::string(kv::sentence_of(done.error())).c_str());
	--left;
}

Task<void> get(kv::Router& client, std::string_view key, std::size_t& size) {
	const auto value = co_await client.get(key);  // Error::missing if there is no such key
	size = value ? value->size : 0;
}

int main(int count, char** arguments) {
	if (count != 2) return std::fprintf(stderr, "usage: kv_example_client SERVER\n"), 2;
	const auto trust = channel::choose_trust({}, channel::trust_environment());
	auto protection = trust ? channel::make_client_protection(*trust) : std::unexpected(trust.error());
	if (!protection) return std::fprintf(stderr, "%s\n", protection.error().c_str()), 1;
	auto session = kv::Session::open({.host = arguments[1], .port = kv::port_default, .protection = *protection});
	auto client = session ? kv::Router::open_now(**session, {}) : std::unexpected(session.error());
	if (!client) return std::fprintf(stderr, "%s\n", client.error().c_str()), 1;
	async::Loop& loop = (*session)->loop();
	int left = 100;
	for (int i = 0; i < 100; ++i)
		loop.spawn(set(**client, "key " + std::to_string(i), std::string(1000 * i, 'v'), left));
	loop.run_until([&] { return left == 0; });
	std::size_t size = 0;
	loop.complete(get(**client, "key 99", size));
	std::printf("key 99 has %zu bytes; %u SETs were under way at once\n", size, (*client)->counters().under_way_max);
	return size == 99'000 ? 0 : 1;
}
