// SPDX-License-Identifier: Apache-2.0
// counter SERVER [tcp]: eight coroutines increment one key by compare-and-set, and print its value.
#include <verbena/kv_client.h>

#include <cstdlib>
#include <iostream>
#include <string>

using namespace verbena;
using async::Task;

Task<void> increment(kv::Router& store, int times, int& left) {
	while (times > 0) {
		auto old = co_await store.get_versioned("count");
		const std::uint64_t version = old ? old->version : 0;
		const std::string next = std::to_string(old ? std::stoi(std::string(kv::text_of(old->bytes()))) + 1 : 1);
		const kv::Bytes bytes = kv::bytes_of(std::string_view(next));
		const auto made = co_await store.set_if("count", bytes, version);
		if (made) --times;
		else if (made.error() != kv::Error::changed) std::exit(1);
	}
	--left;
}

int main(int argc, char** argv) {
	if (argc < 2) return 2;
	const auto trust = channel::choose_trust({}, channel::trust_environment());
	auto protection = trust ? channel::make_client_protection(*trust) : std::unexpected(trust.error());
	if (!protection) return std::cerr << protection.error() << "\n", 1;
	auto session =
		kv::Session::open({.host = argv[1], .port = kv::port_default, .protection = *protection, .tcp = argc > 2});
	auto store = session ? kv::Router::open_now(**session, {}) : std::unexpected(session.error());
	if (!store) return std::cerr << store.error() << "\n", 1;
	int left = 8;
	for (int i = 0; i < 8; ++i) (*session)->loop().spawn(increment(**store, 25, left));
	(*session)->loop().run_until([&] { return left == 0; });
	(*session)->loop().complete([](kv::Router& store) -> Task<void> {
		auto count = co_await store.get("count");
		std::cout << "counted to " << kv::text_of(count->bytes()) << "\n";
	}(**store));
}
