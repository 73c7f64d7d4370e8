// SPDX-License-Identifier: Apache-2.0
// The needs of RPC and of the key-value store, in their smallest form: many requests in flight on
// one connection, answered out of order; and a store whose client is plain sequential code.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "lib/async/job.h"
#include "lib/channel/rc_fixture.h"

namespace verbena::channel {
namespace {

using async::Task;

using testing_tools::bytes_of;
std::string_view text_of(std::span<const std::byte> bytes) {
	return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A request and its answer have the same number in front.
struct CallHeader {
	std::uint32_t number = 0;
	std::uint32_t function = 0;
};

class Caller {
public:
	explicit Caller(Channel& channel) : channel_(channel), dispatcher_(channel.loop(), dispatch()) {}

	Task<std::string> call(std::uint32_t function, std::string_view argument) {
		const CallHeader header{.number = ++last_, .function = function};
		Waiting waiting;
		waiting_[header.number] = &waiting;
		co_await channel_.send(std::as_bytes(std::span(&header, 1)), bytes_of(argument));
		if (!waiting.answered) co_await async::Park(waiting.list);
		waiting_.erase(header.number);
		co_return waiting.answer;
	}

private:
	struct Waiting {
		async::List<async::Waiter> list;
		std::string answer;
		bool answered = false;
	};
	Task<void> dispatch() {
		while (const auto message = co_await channel_.receive()) {
			CallHeader header;
			std::memcpy(&header, message->bytes().data(), sizeof header);
			Waiting& waiting = *waiting_.at(header.number);
			waiting.answer = text_of(message->bytes().subspan(sizeof header));
			waiting.answered = true;
			channel_.loop().resume_soon(waiting.list);
		}
	}
	Channel& channel_;
	std::uint32_t last_ = 0;
	std::map<std::uint32_t, Waiting*> waiting_;
	async::Job dispatcher_;
};

constexpr int quick_calls = 100;

// Function 0 answers at once, function 1 after `quick_calls` of those, so answers overtake it.
Task<void> answer(Channel& channel, Message request, int& answered) {
	CallHeader header;
	std::memcpy(&header, request.bytes().data(), sizeof header);
	while (header.function == 1 && answered < quick_calls) co_await async::NextTurn(channel.loop());
	co_await channel.send(request.bytes());
	++answered;
}

Task<void> serve(Channel& channel) {
	int answered = 0;
	while (true) {
		auto request = co_await channel.receive();
		if (!request) co_return;
		channel.loop().spawn(answer(channel, std::move(*request), answered));
	}
}

class LayersAbove : public ::testing::Test {
protected:
	LayersAbove() {
		transports_.open();
		auto [client, server] = transports_.connect();
		client_ = std::move(client);
		server_ = std::move(server);
	}
	~LayersAbove() override { loop_.abandon_spawned(); }

	async::Loop loop_;
	testing_tools::TwoTransports transports_{loop_};
	std::unique_ptr<RcChannel> client_, server_;
};

TEST_F(LayersAbove, CallsUnderWayTogetherAreAnsweredOutOfOrder) {
	loop_.spawn(serve(*server_));
	Caller caller(*client_);
	std::vector<std::string> order;
	const auto one = [](Caller& caller, std::uint32_t function, std::string text,
						 std::vector<std::string>& order) -> Task<void> {
		const std::string answer = co_await caller.call(function, text);
		EXPECT_EQ(answer, text);
		order.push_back(text);
	};
	loop_.spawn(one(caller, 1, "slow", order));
	for (int i = 0; i < quick_calls; ++i) loop_.spawn(one(caller, 0, "quick " + std::to_string(i), order));
	loop_.run_until([&] { return order.size() == quick_calls + 1; });
	EXPECT_EQ(order.back(), "slow");
}

// Requests are "S<key>=<value>" to set and "G<key>" to get.
Task<void> store(Channel& channel) {
	std::map<std::string, std::string, std::less<>> values;
	while (const auto request = co_await channel.receive()) {
		const std::string_view text = text_of(request->bytes());
		const std::size_t split = text.find('=');
		if (text[0] == 'S') {
			values.insert_or_assign(std::string(text.substr(1, split - 1)), std::string(text.substr(split + 1)));
			co_await channel.send(bytes_of(""));
		} else {
			const auto found = values.find(text.substr(1));
			const std::string_view value = found == values.end() ? std::string_view() : found->second;
			co_await channel.send(bytes_of(value));
		}
	}
}

Task<void> kv_set(Channel& channel, std::string_view key, std::string_view value) {
	const std::string head = "S" + std::string(key) + "=";
	co_await channel.send(bytes_of(head), bytes_of(value));
	co_await channel.receive();
}

Task<std::string> kv_get(Channel& channel, std::string_view key) {
	co_await channel.send(bytes_of("G"), bytes_of(key));
	const auto value = co_await channel.receive();
	co_return std::string(text_of(value->bytes()));
}

TEST_F(LayersAbove, AStoreReadsAsPlainCode) {
	loop_.spawn(store(*server_));
	loop_.complete([](Channel& channel) -> Task<void> {
		const std::string large(100'000, 'v');
		co_await kv_set(channel, "key", "value");
		co_await kv_set(channel, "large", large);
		EXPECT_EQ(co_await kv_get(channel, "key"), "value");
		EXPECT_EQ(co_await kv_get(channel, "large"), large);
		EXPECT_EQ(co_await kv_get(channel, "nothing"), "");
	}(*client_));
}

}  // namespace
}  // namespace verbena::channel
