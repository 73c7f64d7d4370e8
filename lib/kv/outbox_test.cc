// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/outbox.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>

#include "lib/channel/socket_fixture.h"
#include "lib/channel/tcp_channel.h"

namespace verbena::kv {
namespace {

using async::Task;

// One client of a server: the server's outbox, and the client's end, which nothing reads but
// read_all().
struct ClientEnd {
	ClientEnd(async::Loop& loop, UnsentRecords& all) {
		auto sockets = channel::testing_tools::connected_sockets(loop);
		server = std::make_unique<channel::TcpChannel>(
			loop, std::move(sockets[1]), std::nullopt, "client", channel::TcpOptions());
		reader = std::make_unique<channel::TcpChannel>(
			loop, std::move(sockets[0]), std::nullopt, "server", channel::TcpOptions());
		outbox = std::make_unique<Outbox>(*server, 8192, &all);
	}
	// Puts records of 1 KiB until at least `bytes` wait.
	void fill(std::size_t bytes) {
		for (; outbox->waiting() < bytes; ++records) std::memset(outbox->put(1024), 1, 1024);
	}

	std::unique_ptr<channel::TcpChannel> server, reader;
	std::unique_ptr<Outbox> outbox;
	std::size_t records = 0;
};

Task<void> read_all(ClientEnd& client) {
	for (std::size_t bytes = 0; bytes < client.records * 1024;) {
		const auto message = co_await client.reader->receive();
		if (!message) co_return;
		bytes += message->bytes().size();
	}
}

// A thousand clients that read nothing took a mebibyte each, which no budget counted.
TEST(Outbox, IsCrowdedWithLessWhileTheOutboxesOfTheServerKeepMuch) {
	async::Loop loop({.spin = 0});
	UnsentRecords all;
	std::deque<ClientEnd> clients;
	for (int i = 0; i < 10; ++i) clients.emplace_back(loop, all);
	clients[0].fill(512 << 10);
	EXPECT_FALSE(clients[0].outbox->crowded());
	for (ClientEnd& client : clients) client.fill(1 << 20);
	EXPECT_GT(all.bytes, UnsentRecords::many);
	EXPECT_TRUE(clients[0].outbox->crowded());

	// All but one are read.
	for (std::size_t i = 1; i < clients.size(); ++i) loop.complete(read_all(clients[i]));
	EXPECT_LT(all.bytes, UnsentRecords::many);
	clients[1].fill(512 << 10);
	EXPECT_FALSE(clients[1].outbox->crowded()) << "the others keep little now";
}

TEST(Outbox, CountsNothingOnceItsRecordsAreSentAndItIsGone) {
	async::Loop loop({.spin = 0});
	UnsentRecords all;
	std::deque<ClientEnd> clients;
	for (int i = 0; i < 2; ++i) clients.emplace_back(loop, all);
	for (ClientEnd& client : clients) client.fill(1 << 20);
	EXPECT_GE(all.bytes, std::size_t{2} << 20);
	loop.complete(read_all(clients[0]));
	EXPECT_LT(all.bytes, (std::size_t{1} << 20) + (64 << 10)) << "the memory for the next message may be kept";
	clients.clear();
	EXPECT_EQ(all.bytes, 0u);
}

}  // namespace
}  // namespace verbena::kv
