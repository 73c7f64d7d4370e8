// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/echo_service.h"

#include <gtest/gtest.h>

#include "bench/scale/service_fixture.h"
#include "lib/channel/connect.h"

namespace verbena::scale {
namespace {

using async::Task;
using channel::testing_tools::until;

Task<void> send(channel::Channel& channel, int count, int& sent) {
	const std::vector<std::byte> message(1000);
	for (; sent < count; ++sent)
		if (!co_await channel.send(message)) co_return ADD_FAILURE() << channel.reason();
}

// The client receives nothing, so only some echoes fit on the way back. The service still holds the
// other messages, unanswered, when it is stopped.
TEST(EchoService, AnswersWhatHasArrivedBeforeItEnds) {
	constexpr int count = 40;
	constexpr channel::RcOptions takes_all{.window = {.first = 64, .max = 64}, .units_max = 4096, .connections_max = 4};
	constexpr channel::RcOptions takes_few{.window = {.first = 1, .max = 4}, .units_max = 4096, .connections_max = 4};
	testing_tools::RunningService service(takes_all);

	async::Loop loop;
	const auto transport = channel::RcTransport::open(loop, channel::testing_tools::test_device(), takes_few).value();
	std::unique_ptr<channel::RcChannel> client;
	int sent = 0;
	channel::ConnectOptions to{.protection = channel::ClearText{}, .host = "127.0.0.1", .port = service.port()};
	loop.complete([](channel::RcTransport& transport, channel::ConnectOptions to,
					  std::unique_ptr<channel::RcChannel>& client) -> Task<void> {
		auto connected = co_await connect(transport, std::move(to));
		if (!connected) co_return ADD_FAILURE() << connected.error();
		client = std::move(*connected);
	}(*transport, std::move(to), client));
	if (client == nullptr) return service.stop();
	loop.spawn(send(*client, count, sent));
	loop.complete(until(loop, [&] { return sent == count; }));
	EXPECT_EQ(sent, count);
	EXPECT_LT(service.counts().echoed.load(), static_cast<std::uint64_t>(count));
	service.stop();
	int echoes = 0;
	loop.complete([](channel::Channel& client, int& echoes) -> Task<void> {
		while (true) {
			const auto message = co_await client.receive();
			if (!message) break;
			++echoes;
		}
		co_await client.until_closed();
	}(*client, echoes));
	EXPECT_EQ(echoes, count);
	EXPECT_EQ(client->reason(), "");
}

}  // namespace
}  // namespace verbena::scale
