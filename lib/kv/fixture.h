// SPDX-License-Identifier: Apache-2.0
// KvBase: the test fixture with clients and a server of the store in one thread, each side on an
// RDMA transport of its own.
//
// Invariants: after each test, no window is in use and no memory is held on either side.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "lib/channel/rc_fixture.h"
#include "lib/kv/client.h"
#include "lib/kv/server.h"
#include "lib/kv/settings.h"

namespace verbena::kv::testing_tools {

using async::Task;

inline std::string pattern(std::size_t size, unsigned seed) {
	std::string text(size, '\0');
	for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31 + i / 255 + seed) & 0xff);
	return text;
}

inline std::vector<std::byte> request_for(const RequestHeader& header, std::string_view key) {
	std::vector<std::byte> request;
	RequestHeader whole = header;
	whole.key_length = static_cast<std::uint16_t>(key.size());
	append(request, whole);
	append(request, bytes_of(key));
	return request;
}

// Runs the server's side of a connection; `why` gets its result.
inline Task<void> serve(Connection& connection, std::string& why) { why = co_await connection.serve(); }

class KvBase : public ::testing::Test {
protected:
	void open(const StoreOptions& store, const ServerOptions& server, std::size_t client_memory = Settings{}.memory) {
		const Settings of_server{.connections_max = 80, .one_sided = store.index_bytes};
		const Settings of_clients{.connections_max = 80, .memory = client_memory};
		transports_.open(client_rc_options(of_clients), server_rc_options(of_server, server.value_max));
		server_options_ = server;
		store_ = std::make_unique<Store>(store, &transports_[1].memory());
		watches_ = std::make_unique<Watches>(loop_, *store_);
		changes_ = std::make_unique<Changes>(loop_, *store_, sessions_, journal_);
	}
	void SetUp() override { open({}, {}); }
	void TearDown() override {
		loop_.abandon_spawned();
		for (auto& each : clients_) each.reset();
		connections_.clear();
		changes_.reset();
		for (std::size_t i : {0, 1}) transports_[i].abandon_draining();
		store_.reset();
		further_.reset();
		for (std::size_t i : {0, 1}) {
			EXPECT_EQ(transports_[i].windows_in_use(), 0u);
			EXPECT_EQ(transports_[i].memory().in_use(), 0u);
		}
	}

	// Returns the client's end of a new connection, before either side has sent its greeting.
	std::unique_ptr<channel::Channel> connect_without_greeting() {
		channel::RcTransport& server = further_ ? *further_ : transports_[1];
		auto [ours, theirs] = channel::testing_tools::connect(transports_[0], server);
		auto& served = connections_.emplace_back(std::make_unique<Served>());
		served->connection = std::make_unique<Connection>(
			*store_, *changes_, sessions_, std::move(theirs), server_options_, counters_, *watches_, facts_);
		loop_.spawn(serve(*served->connection, served->why));
		return std::move(ours);
	}
	Client& connect(const ClientOptions& options = {}) {
		auto ours = connect_without_greeting();
		auto& client = clients_.emplace_back();
		loop_.complete([](std::unique_ptr<channel::Channel> channel, ClientOptions options,
						   std::unique_ptr<Client>& client) -> Task<void> {
			auto opened = co_await Client::open(std::move(channel), options);
			EXPECT_TRUE(opened.has_value());
			if (opened) client = std::move(*opened);
		}(std::move(ours), options, client));
		return *client;
	}

	// Returns the client's end of a new connection after the greetings, for a test that sends
	// records of its own making.
	std::unique_ptr<channel::Channel> connect_raw() {
		auto ours = connect_without_greeting();
		loop_.complete([](channel::Channel& raw) -> Task<void> {
			const Hello hello;
			const Bytes greeting = bytes_of(hello);
			co_await raw.send(greeting);
			const auto answer = co_await raw.receive();
			EXPECT_TRUE(answer.has_value());
		}(*ours));
		return ours;
	}

	// Runs the loop until the server has handled this many requests. Returns the most in one turn.
	std::uint64_t most_in_a_turn(std::uint64_t requests) {
		std::uint64_t before = 0, most = 0;
		loop_.run_until([&] {
			most = std::max(most, counters_.requests - before);
			before = counters_.requests;
			return before >= requests;
		});
		return most;
	}

	struct Served {
		std::unique_ptr<Connection> connection;
		std::string why;  // why the connection ended
	};
	async::Loop loop_;
	channel::testing_tools::TwoTransports transports_{loop_};
	std::unique_ptr<channel::RcTransport> further_;  // if set, the server's for the next clients
	ServerOptions server_options_;
	ServerCounters counters_;
	const FactSource* facts_ = nullptr;  // for the connections of the next clients
	Sessions sessions_{1};
	Journal* journal_ = nullptr;  // for the next open(); its store needs a window
	std::unique_ptr<Store> store_;
	std::unique_ptr<Watches> watches_;
	std::unique_ptr<Changes> changes_;
	std::vector<std::unique_ptr<Served>> connections_;
	std::vector<std::unique_ptr<Client>> clients_;
};

inline Task<void> expect_value(Client& client, std::string_view key, std::string_view wanted) {
	auto value = co_await client.get(key);
	EXPECT_TRUE(value.has_value()) << key << ": " << sentence_of(value ? Error::missing : value.error());
	if (value) {
		EXPECT_EQ(value->size, wanted.size());
		EXPECT_TRUE(text_of(value->bytes()) == wanted) << key;
		EXPECT_EQ(value->data()[value->size], std::byte{0});
	}
}

inline Task<void> set_value(Client& client, std::string_view key, std::string_view value) {
	const Bytes bytes = bytes_of(value);
	const auto done = co_await client.set(key, bytes);
	EXPECT_TRUE(done.has_value()) << sentence_of(done ? Error::missing : done.error());
}

inline Task<void> overwrite(Client& client, int times, std::size_t size, int& writing) {
	for (int i = 0; i < times; ++i) {
		const std::string value(size, static_cast<char>('a' + i % 26));
		co_await set_value(client, "key", value);
	}
	--writing;
}

inline Task<void> read_whole(Client& client, const int& writing, int& reads) {
	while (writing > 0) {
		auto value = co_await client.get("key");
		if (!value) continue;
		const std::string_view text = text_of(value->bytes());
		EXPECT_EQ(text.find_first_not_of(text.front()), text.npos) << "a torn value";
		++reads;
	}
}

}  // namespace verbena::kv::testing_tools
