// SPDX-License-Identifier: Apache-2.0
// Streams in every direction, over every transport, with a server in another process.
#include "lib/async/job.h"
#include "lib/rpc/testing/connected.h"

namespace verbena::rpc {
namespace {

using namespace std::chrono_literals;
using rpc_test::Person;
using rpc_test::prepare;
using rpc_test::ServerProcess;

class Streams : public rpc_test::Connected {};
OVER_EVERY_TRANSPORT(Streams);

// Reads until the end or an error, which is stored in `why`. The last argument gives the item type.
template <class Stream, class T> Lazy<std::vector<T>> read_all(Stream& stream, std::optional<rpc_error>& why, T) {
	std::vector<T> items;
	while (true) {
		auto next = co_await stream.read();
		if (!next) why = next.error();
		if (!next || !*next) break;
		items.push_back(std::move(**next));
	}
	co_return items;
}

std::vector<int> numbers(int from, int to) {
	std::vector<int> all;
	for (int i = from; i < to; ++i) all.push_back(i);
	return all;
}

TEST_P(Streams, ItemsOfTheServerArriveInOrderAndThenTheResult) {
	const auto work = [](Client& client) -> Lazy<void> {
		for (const int count : {0, 1, 5, 20'000}) {
			auto counting = co_await client.open_stream<rpc_test::count_up>(7, 7 + count);
			EXPECT_TRUE(counting);
			std::optional<rpc_error> why;
			const auto items = co_await read_all(*counting, why, 0);
			EXPECT_EQ(items, numbers(7, 7 + count));
			EXPECT_FALSE(why);
			const auto result = co_await counting->finish();
			EXPECT_EQ(result ? *result : -1, count);
		}
		EXPECT_EQ(client.get_pipeline_size(), 0u);
	};
	syncAwait(work(client_));
}

TEST_P(Streams, ItemsOfTheClientArriveAndThenTheResultReturns) {
	const auto work = [](Client& client) -> Lazy<void> {
		auto averaging = co_await client.open_stream<rpc_test::mean>();
		for (int i = 0; i <= 20'000; ++i) {
			const auto written = co_await averaging->write(i);
			EXPECT_TRUE(written);
		}
		const auto result = co_await averaging->finish();
		EXPECT_EQ(result ? *result : -1, 10'000);
		const auto late = co_await averaging->write(1.0);
		EXPECT_EQ(late.error().code, errc::operation_canceled);
	};
	syncAwait(work(client_));
}

TEST_P(Streams, BothEndsWriteAndReadAtTheSameTime) {
	const auto work = [](Client& client) -> Lazy<void> {
		auto talk = co_await client.open_stream<rpc_test::shout>("!");
		for (int i = 0; i < 100; ++i) {
			const std::string word = "word " + std::to_string(i);
			co_await talk->write(word);
			const auto louder = co_await talk->read();
			EXPECT_TRUE(louder && *louder && **louder == word + "!");
		}
		const auto writer = [](client_stream<rpc_test::shout>& to) -> Lazy<bool> {
			for (int i = 0; i < 5'000; ++i) {
				const std::string word(static_cast<std::size_t>(i % 3000), 'w');
				const auto written = co_await to.write(word);
				if (!written) co_return false;
			}
			to.writes_done();
			co_return true;
		};
		const auto reader = [](client_stream<rpc_test::shout>& from) -> Lazy<bool> {
			std::optional<rpc_error> why;
			const auto items = co_await read_all(from, why, std::string());
			bool good = items.size() == 5'000 && !why;
			for (std::size_t i = 0; i < items.size(); ++i) good = good && items[i].size() == i % 3000 + 1;
			co_return good;
		};
		std::vector<Lazy<bool>> both;
		both.push_back(writer(*talk));
		both.push_back(reader(*talk));
		const auto good = co_await collectAll(std::move(both));
		EXPECT_TRUE(good[0]);
		EXPECT_TRUE(good[1]);
		const auto result = co_await talk->finish();
		EXPECT_EQ(result ? *result : -1, 5'100);
	};
	syncAwait(work(client_));
}

TEST_P(Streams, ItemsMayHaveAProgramsOwnTypesAndMayBeLarge) {
	const auto work = [](Client& client) -> Lazy<void> {
		auto party = co_await client.open_stream<rpc_test::birthdays>();
		for (const std::size_t size : {std::size_t{3}, std::size_t{5'000}, std::size_t{900'000}, std::size_t{10}}) {
			const Person guest{.name = std::string(size, 'g'), .age = 35, .friends = {"Charles"}};
			co_await party->write(guest);
			const auto older = co_await party->read();
			EXPECT_TRUE(older && *older && **older == (Person{.name = guest.name, .age = 36, .friends = guest.friends}))
				<< size;
		}
		const Person giant{.name = std::string(2 << 20, 'g')};
		co_await party->write(giant);
		const auto refused = co_await party->read();
		EXPECT_EQ(refused ? errc::ok : refused.error().code.ec, errc::message_too_large)
			<< "the item is above the server's limit";
		const auto sum = co_await client.call<rpc_test::add>(1, 2);
		EXPECT_TRUE(sum) << "the connection stays up";
	};
	syncAwait(work(client_));
}

TEST_P(Streams, MemberFunctionsAndManyStreamsRunBesideCalls) {
	const auto work = [](Client& client) -> Lazy<void> {
		const auto one = [](Client& client, int number) -> Lazy<int> {
			auto talk = co_await client.open_stream<rpc_test::shout>(std::to_string(number));
			if (!talk) co_return 0;
			for (int i = 0; i < 20; ++i) {
				const std::string word = std::to_string(i);
				co_await talk->write(word);
			}
			talk->writes_done();
			std::optional<rpc_error> why;
			const auto items = co_await read_all(*talk, why, std::string());
			const auto sum = co_await client.call_for<rpc_test::add>(20s, number, 1);
			const bool good =
				items.size() == 20 && items.back() == "19" + std::to_string(number) && sum && *sum == number + 1;
			const auto result = co_await talk->finish();
			co_return good&& result ? *result : 0;
		};
		std::vector<Lazy<int>> all;
		for (int i = 0; i < 200; ++i) all.push_back(one(client, i));
		const auto counts = co_await collectAll(std::move(all));
		EXPECT_EQ(counts, std::vector<int>(200, 20));
		auto adding = co_await client.open_stream<&rpc_test::Counter::increase_by_each>();
		for (int i = 1; i <= 10; ++i) co_await adding->write(i);
		const auto added = co_await adding->finish();
		EXPECT_TRUE(added);
		const auto total = co_await client.call<&rpc_test::Counter::read>();
		EXPECT_EQ(*total, 55);
	};
	syncAwait(work(client_));
}

// Asks until the count is `wanted`, and then a hundred times more to see that it does not change.
Lazy<bool> settles_at(Client& client, int wanted) {
	const auto deadline = std::chrono::steady_clock::now() + 20s;
	for (int same = 0; same < 100;) {
		const auto now = co_await client.call<rpc_test::count_of_flooded>();
		if (!now || *now > wanted || std::chrono::steady_clock::now() > deadline) co_return false;
		same = *now == wanted ? same + 1 : 0;
	}
	co_return true;
}

TEST_P(Streams, ASlowClientHoldsBackTheServersWriter) {
	const auto work = [](Client& client) -> Lazy<void> {
		constexpr int items = 2'000;
		// 3 bytes for MessagePack's header and 24 for the frame's.
		constexpr std::uint32_t size = 1'000, cost = size + 3 + 24;
		constexpr std::uint32_t window = 128 << 10;
		const stream_config_t settings{.window = window};
		auto flooding = co_await client.open_stream<rpc_test::flood>(settings, items, size);
		EXPECT_TRUE(flooding);
		const bool held = co_await settles_at(client, window / cost + 1);
		EXPECT_TRUE(held) << "no more items than the window allows";
		std::optional<rpc_error> why;
		const auto all = co_await read_all(*flooding, why, std::string());
		EXPECT_EQ(all.size(), std::size_t{items});
		EXPECT_EQ(all.front(), std::string(size, 'f'));
		const auto result = co_await flooding->finish();
		EXPECT_TRUE(result);
	};
	syncAwait(work(client_));
}

// Returns the count once it has been the same a hundred times.
Lazy<int> settled(Client& client) {
	int last = -1;
	for (int same = 0; same < 100;) {
		const auto now = co_await client.call<rpc_test::count_of_flooded>();
		if (!now) co_return -1;
		same = *now == last ? same + 1 : 0;
		last = *now;
	}
	co_return last;
}

// Without unsent_max a window of 1 GiB would let the server queue a gibibyte for each stream.
TEST_P(Streams, APeerThatGrantsMuchAndReadsNothingHoldsTheWriterBack) {
	std::binary_semaphore go_on(0);
	IoThreads threads(1, {});
	Client greedy(threads.at(0));
	prepare(greedy, GetParam());
	ASSERT_FALSE(syncAwait(greedy.connect(server_.address())));
	const stream_config_t settings{.window = 1 << 30};
	auto flooding = syncAwait(greedy.open_stream<rpc_test::flood>(settings, 2'000, 1'000'000u));
	ASSERT_TRUE(flooding);
	const auto one = [](client_stream<rpc_test::flood>& from) -> Lazy<bool> {
		const auto item = co_await from.read();
		co_return item && *item;
	};
	ASSERT_TRUE(syncAwait(one(*flooding)));  // the function is running
	threads.at(0).run([&] { go_on.acquire(); });
	const int written = syncAwait(settled(client_));
	EXPECT_GT(written, 30);
	EXPECT_LT(written, 700) << "at most the items in flight and 64 MiB";
	go_on.release();
}

TEST_P(Streams, ASlowServerHoldsBackTheClientsWriter) {
	const auto work = [](Client& client) -> Lazy<void> {
		co_await client.call<rpc_test::tell>(false);
		auto hearing = co_await client.open_stream<rpc_test::read_when_allowed>();
		std::atomic<int> written{0};
		const auto write = [](client_stream<rpc_test::read_when_allowed>& to, std::atomic<int>& written) -> Lazy<bool> {
			const std::string item(10'000, 'i');
			for (int i = 0; i < 500; ++i) {
				const auto sent = co_await to.write(item);
				if (!sent) co_return false;
				++written;
			}
			co_return true;
		};
		const auto watch = [](Client& client, std::atomic<int>& written) -> Lazy<bool> {
			constexpr int wanted = (256 << 10) / (10'000 + 3 + 24) + 1;
			while (written < wanted) co_await client.call<rpc_test::add>(1, 1);
			for (int i = 0; i < 100; ++i) co_await client.call<rpc_test::add>(1, 1);
			const bool held = written == wanted;
			co_await client.call<rpc_test::tell>(true);
			co_return held;
		};
		std::vector<Lazy<bool>> both;
		both.push_back(write(*hearing, written));
		both.push_back(watch(client, written));
		const auto good = co_await collectAll(std::move(both));
		EXPECT_TRUE(good[0]);
		EXPECT_TRUE(good[1]) << "no more items than the window allows";
		const auto bytes = co_await hearing->finish();
		EXPECT_EQ(bytes ? *bytes : 0, 5'000'000u);
	};
	syncAwait(work(client_));
}

TEST_P(Streams, AFunctionThatThrowsEndsItsStreamBehindItsItems) {
	const auto work = [](Client& client) -> Lazy<void> {
		auto pages = co_await client.open_stream<rpc_test::throw_after>(10);
		std::optional<rpc_error> why;
		const auto items = co_await read_all(*pages, why, 0);
		EXPECT_EQ(items, numbers(0, 10));
		EXPECT_EQ(why ? why->val() : 0, 10'404);
		const auto result = co_await pages->finish();
		EXPECT_EQ(result.error().msg, "no more pages");
		auto counting = co_await client.open_stream<rpc_test::count_up>(0, 100'000);
		const auto early = co_await counting->finish();
		EXPECT_EQ(early ? *early : -1, 100'000) << "unread items are dropped and do not hold the writer back";
	};
	syncAwait(work(client_));
}

// Waits up to 20 s until the server's function has seen its stream break with this code.
Lazy<bool> sees_break(Client& client, errc wanted) {
	const auto deadline = std::chrono::steady_clock::now() + 20s;
	while (std::chrono::steady_clock::now() < deadline) {
		const auto why = co_await client.call<rpc_test::why_broken>();
		if (why && *why == static_cast<std::uint16_t>(wanted)) co_return true;
	}
	co_return false;
}

TEST_P(Streams, AClientCancelsAStream) {
	const auto work = [](Client& client) -> Lazy<void> {
		auto first = co_await client.open_stream<rpc_test::until_broken>();
		const auto one = co_await first->read();
		EXPECT_TRUE(one && *one && **one == 1);
		first->cancel();
		const auto none = co_await first->read();
		EXPECT_EQ(none.error().code, errc::operation_canceled);
		const auto end = co_await first->finish();
		EXPECT_EQ(end.error().code, errc::operation_canceled);
		const bool seen = co_await sees_break(client, errc::operation_canceled);
		EXPECT_TRUE(seen);
		EXPECT_EQ(client.get_pipeline_size(), 0u);
	};
	syncAwait(work(client_));
}

TEST_P(Streams, DestroyingAStreamCancelsIt) {
	const auto work = [](Client& client) -> Lazy<void> {
		{
			auto dropped = co_await client.open_stream<rpc_test::until_broken>();
			co_await dropped->read();
		}
		const bool seen = co_await sees_break(client, errc::operation_canceled);
		EXPECT_TRUE(seen);
		EXPECT_EQ(client.get_pipeline_size(), 0u);
	};
	syncAwait(work(client_));
}

TEST_P(Streams, TheTimeoutCoversTheWholeStream) {
	const auto work = [](Client& client) -> Lazy<void> {
		const stream_config_t settings{.timeout = 30ms};
		auto talk = co_await client.open_stream<rpc_test::until_broken>(settings);
		co_await talk->read();
		const auto late = co_await talk->read();
		EXPECT_EQ(late.error().code, errc::timed_out);
		const auto unsent = co_await talk->write(1);
		EXPECT_EQ(unsent.error().code, errc::timed_out);
		const auto end = co_await talk->finish();
		EXPECT_EQ(end.error().code, errc::timed_out);
		const auto deadline = std::chrono::steady_clock::now() + 20s;
		errc seen = errc::ok;  // the server's own timeout, or the client's cancel
		while (seen != errc::timed_out && seen != errc::operation_canceled &&
			std::chrono::steady_clock::now() < deadline) {
			const auto why = co_await client.call<rpc_test::why_broken>();
			if (why) seen = static_cast<errc>(*why);
		}
		EXPECT_TRUE(seen == errc::timed_out || seen == errc::operation_canceled);
	};
	syncAwait(work(client_));
}

TEST_P(Streams, AServerThatDiesBreaksTheStreamsOfItsConnectionsOnly) {
	ServerProcess other("1", GetParam());
	Client spared;
	prepare(spared, GetParam());
	ASSERT_FALSE(syncAwait(spared.connect(other.address())));
	const auto work = [](Client& client, ServerProcess& server, Client& spared) -> Lazy<void> {
		auto goes_on = co_await spared.open_stream<rpc_test::shout>("!");
		auto first = co_await client.open_stream<rpc_test::shout>("!");
		auto second = co_await client.open_stream<rpc_test::mean>();
		const std::string word = "word";
		co_await first->write(word);
		co_await first->read();
		server.kill();
		const auto one = co_await first->read();
		EXPECT_EQ(one.error().code, errc::io_error) << one.error().msg;
		const auto unsent = co_await first->write(word);
		EXPECT_EQ(unsent.error().code, errc::io_error);
		const auto result = co_await second->finish();
		EXPECT_EQ(result.error().code, errc::io_error);
		co_await goes_on->write(word);
		const auto louder = co_await goes_on->read();
		EXPECT_TRUE(louder && *louder && **louder == "word!");
		const auto end = co_await goes_on->finish();
		EXPECT_EQ(end ? *end : 0, 1);
	};
	syncAwait(work(client_, server_, spared));
	EXPECT_EQ(other.stop(), 0);
}

TEST_P(Streams, DestroyingAClientBreaksItsOwnStreamsOnly) {
	auto leaver = std::make_unique<Client>();
	prepare(*leaver, GetParam());
	ASSERT_FALSE(syncAwait(leaver->connect(server_.address())));
	auto left = syncAwait(leaver->open_stream<rpc_test::until_broken>());
	ASSERT_TRUE(left);
	auto stays = syncAwait(client_.open_stream<rpc_test::shout>("!"));
	leaver.reset();
	EXPECT_EQ(syncAwait(left->finish()).error().code, errc::operation_canceled);
	EXPECT_TRUE(syncAwait(sees_break(client_, errc::io_error)));
	EXPECT_EQ(syncAwait(stays->finish()).value(), 0);
}

TEST_P(Streams, AGracefulStopLetsStreamsFinish) {
	const auto work = [](Client& client, ServerProcess& server) -> Lazy<void> {
		auto talk = co_await client.open_stream<rpc_test::shout>("!");
		const std::string word = "word";
		co_await talk->write(word);
		co_await talk->read();
		server.request_stop();
		while (!client.has_closed()) co_await client.get_executor().loop().sleep_for(1'000'000);
		auto refused = co_await client.open_stream<rpc_test::shout>("!");
		EXPECT_EQ(refused.error().code, errc::not_connected);
		for (int i = 0; i < 100; ++i) {  // within the server's patience
			co_await talk->write(word);
			const auto louder = co_await talk->read();
			EXPECT_TRUE(louder && *louder && **louder == "word!");
		}
		const auto result = co_await talk->finish();
		EXPECT_EQ(result ? *result : 0, 101);
	};
	syncAwait(work(client_, server_));
	EXPECT_EQ(server_.stop(), 0);
}

TEST_P(Streams, TheServerLimitsTheNumberOfOpenStreams) {
	const auto work = [](Client& client) -> Lazy<void> {
		std::vector<client_stream<rpc_test::shout>> open;
		for (int i = 0; i < 300; ++i) {
			auto one = co_await client.open_stream<rpc_test::shout>("!");
			if (one) open.push_back(std::move(*one));
		}
		EXPECT_EQ(open.size(), 300u);
		auto more = co_await client.open_stream<rpc_test::shout>("!");
		const auto refused = co_await more->read();
		EXPECT_EQ(refused.error().code, errc::too_many_streams);
		co_await open.back().finish();
		auto again = co_await client.open_stream<rpc_test::shout>("!");
		const auto result = co_await again->finish();
		EXPECT_TRUE(result);
	};
	syncAwait(work(client_));
}

TEST(Streams, AServerWithoutStreamsIsDetectedAndTheConnectionStaysUp) {
	ServerProcess server("1", "tcp-old");
	Client client;
	ASSERT_FALSE(syncAwait(client.connect(server.address())));
	for (int i = 0; i < 2; ++i) {
		const auto refused = syncAwait(client.open_stream<rpc_test::shout>("!"));
		ASSERT_FALSE(refused);
		EXPECT_EQ(refused.error().code, errc::unknown_protocol_version);
		EXPECT_EQ(syncAwait(client.call<rpc_test::add>(1, 2)).value(), 3);
	}
}

TEST(Streams, CallingAFunctionThatHasAStreamIsRefused) {
	ServerProcess server("1", "tcp");
	Client client;
	ASSERT_FALSE(syncAwait(client.connect(server.address())));
	const auto refused = syncAwait(client.call_by_name<int>("rpc_test::count_up", 1, 2));
	EXPECT_EQ(refused.error().code, errc::invalid_rpc_arguments);
	EXPECT_NE(refused.error().msg.find("open it"), std::string::npos) << refused.error().msg;
}

}  // namespace
}  // namespace verbena::rpc
