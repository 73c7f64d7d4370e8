// SPDX-License-Identifier: Apache-2.0
// Client and server of the store over RDMA, eager and by rendezvous, each side on its own
// transport.
#include "lib/channel/socket_fixture.h"
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;
using channel::Place;

struct Way {
	Protocol protocol = Protocol::automatic;
	Form form = Form::read;
	const char* name = "";
};

class Kv : public KvBase, public ::testing::WithParamInterface<Way> {
protected:
	ClientOptions options() const { return {.protocol = GetParam().protocol, .form = GetParam().form}; }
};
INSTANTIATE_TEST_SUITE_P(Ways, Kv,
	::testing::Values(Way{Protocol::eager, Form::read, "Eager"},
		Way{Protocol::rendezvous, Form::read, "RendezvousByRead"},
		Way{Protocol::rendezvous, Form::write, "RendezvousByWrite"}, Way{Protocol::automatic, Form::read, "Auto"}),
	[](const auto& info) { return info.param.name; });

TEST_P(Kv, ValuesOfEverySizeComeBackAsTheyWereSet) {
	Client& client = connect(options());
	loop_.complete([](Client& client) -> Task<void> {
		for (const std::size_t size :
			{0, 1, 63, 64, 2047, 2048, 4088, 4089, 4090, 4091, 4092, 4093, 4096, 8192, 65'536, 1 << 20, 5'000'000}) {
			const std::string value = pattern(size, static_cast<unsigned>(size));
			co_await set_value(client, "key", value);
			co_await expect_value(client, "key", value);
		}
	}(client));
}

TEST_P(Kv, AValueOf64MebibytesAndOneByteLess) {
	Client& client = connect(options());
	loop_.complete([](Client& client) -> Task<void> {
		for (const std::size_t size : {value_max - 1, value_max}) {
			const std::string value = pattern(size, 5);
			co_await set_value(client, "large", value);
			co_await expect_value(client, "large", value);
		}
		const std::string value = pattern(value_max + 1, 5);
		const Bytes bytes = bytes_of(value);
		const auto refused = co_await client.set("large", bytes);
		EXPECT_EQ(refused.error(), Error::long_value);
		co_await set_value(client, "small", "still there");
	}(client));
}

TEST_P(Kv, AMissingKeyAndAnEmptyValueAreDistinct) {
	Client& client = connect(options());
	loop_.complete([](Client& client) -> Task<void> {
		auto value = co_await client.get("key");
		EXPECT_EQ(value.error(), Error::missing);
		co_await set_value(client, "key", "");
		co_await expect_value(client, "key", "");
		auto removed = co_await client.remove("key");
		EXPECT_TRUE(removed.has_value());
		removed = co_await client.remove("key");
		EXPECT_EQ(removed.error(), Error::missing);
	}(client));
}

TEST_P(Kv, KeysOf1To4096BytesAndNoOthers) {
	Client& client = connect(options());
	loop_.complete([](Client& client) -> Task<void> {
		const std::string longest(4096, 'k'), too_long(4097, 'k'), value = pattern(5000, 1);
		co_await set_value(client, longest, value);
		co_await expect_value(client, longest, value);
		auto refused = co_await client.get(too_long);
		EXPECT_EQ(refused.error(), Error::long_key);
		auto empty = co_await client.get("");
		EXPECT_EQ(empty.error(), Error::empty_key);
	}(client));
}

Task<void> one_of_many(Client& client, int number, int& done) {
	const std::string key = "key " + std::to_string(number % 100),
					  value = pattern(static_cast<std::size_t>(number) * 37 % 20'000, 1);
	co_await set_value(client, key, value);
	auto got = co_await client.get(key);
	EXPECT_TRUE(got.has_value());
	++done;
}

TEST_P(Kv, ThousandsOfOperationsAreUnderWayAtOnce) {
	Client& client = connect(options());
	int done = 0;
	for (int i = 0; i < 6000; ++i) loop_.spawn(one_of_many(client, i, done));
	loop_.run_until([&] { return done == 6000; });
	EXPECT_LE(client.counters().under_way_max, server_options_.requests_max);
	EXPECT_GT(client.counters().under_way_max, 1000u);
	EXPECT_EQ(client.under_way(), 0u);
}

TEST_P(Kv, AGetIsNeverTornWhileItsKeyIsOverwritten) {
	Client &writer = connect(options()), &second = connect(options()), &reader = connect(options());
	int writing = 2, reads = 0;
	loop_.spawn(overwrite(writer, 500, 20'000, writing));
	loop_.spawn(overwrite(second, 500, 3'000, writing));
	loop_.spawn(read_whole(reader, writing, reads));
	loop_.run_until([&] { return writing == 0; });
	loop_.run_until([&] { return reader.under_way() == 0; });
	EXPECT_GT(reads, 100);
}

TEST_P(Kv, OverwritingLeavesRegistrationsAsTheyWere) {
	Client& client = connect(options());
	int writing = 1;
	loop_.spawn(overwrite(client, 50, 70'000, writing));
	loop_.run_until([&] { return writing == 0; });
	const auto registrations = [&] {
		return transports_[0].memory().counters().registrations + transports_[1].memory().counters().registrations;
	};
	const auto before = registrations();
	const std::size_t used = store_->used();
	writing = 1;
	loop_.spawn(overwrite(client, 2000, 70'000, writing));
	loop_.run_until([&] { return writing == 0; });
	EXPECT_EQ(registrations(), before);
	EXPECT_EQ(store_->used(), used);
}

class KvFull : public Kv {
protected:
	void SetUp() override { open({.memory_max = 1 << 20}, {}); }
};
INSTANTIATE_TEST_SUITE_P(Ways, KvFull,
	::testing::Values(Way{Protocol::eager, Form::read, "Eager"},
		Way{Protocol::rendezvous, Form::read, "RendezvousByRead"},
		Way{Protocol::rendezvous, Form::write, "RendezvousByWrite"}),
	[](const auto& info) { return info.param.name; });

TEST_P(KvFull, AFullStoreRefusesSetsAndServesOn) {
	Client& client = connect(options());
	loop_.complete([](Client& client) -> Task<void> {
		const std::string value = pattern(100'000, 3);
		const Bytes bytes = bytes_of(value);
		int taken = 0;
		while (taken < 50) {
			const std::string key = "key" + std::to_string(taken);
			const auto done = co_await client.set(key, bytes);
			if (!done) {
				EXPECT_EQ(done.error(), Error::full);
				break;
			}
			++taken;
		}
		EXPECT_EQ(taken, 10) << "each value takes 25 pages of 4 KiB, with its key";
		co_await expect_value(client, "key0", value);
		co_await set_value(client, "key0", pattern(100'000, 4));
		(void)co_await client.remove("key1");
		co_await set_value(client, "another", value);
	}(client));
}

// Counts records, which carry the value or refer to it. RDMA READs and WRITEs are no records.
TEST_F(KvBase, AnOperationTakesTheDocumentedNumberOfMessages) {
	struct Case {
		ClientOptions options;
		std::uint64_t of_set, of_get;
	};
	const std::string value = pattern(10'000, 1);
	for (const Case& each : {Case{{.protocol = Protocol::eager}, 2, 2}, Case{{.protocol = Protocol::rendezvous}, 2, 2},
			 Case{{.protocol = Protocol::rendezvous, .form = Form::write}, 4, 2}}) {
		Client& client = connect(each.options);
		const auto records = [&] { return client.counters().records_sent + client.counters().records_received; };
		loop_.complete([](Client& client, const std::string& value) -> Task<void> {
			for (int i = 0; i < 100; ++i) co_await set_value(client, "key", value);
		}(client, value));
		EXPECT_EQ(records(), 100 * each.of_set);
		loop_.complete([](Client& client, const std::string& value) -> Task<void> {
			for (int i = 0; i < 100; ++i) co_await expect_value(client, "key", value);
		}(client, value));
		// The release of each lease goes with the next request.
		EXPECT_EQ(records() - client.counters().releases_alone, 100 * (each.of_set + each.of_get));
		EXPECT_LT(client.counters().releases_alone, 20u);
	}
}

TEST_F(KvBase, RegisteredMemoryIsSetWithoutACopy) {
	Client& client = connect({.protocol = Protocol::rendezvous});
	loop_.complete([](Client& client) -> Task<void> {
		const std::string value = pattern(100'000, 9);
		const channel::Buffer buffer = client.channel().memory()->take(value.size());
		std::memcpy(buffer.data(), value.data(), value.size());
		Place place(buffer, 1000, 50'000);
		const auto done = co_await client.set("key", std::move(place));
		EXPECT_TRUE(done.has_value());
		co_await expect_value(client, "key", value.substr(1000, 50'000));
		EXPECT_EQ(client.counters().copied, 0u);
	}(client));
}

// The first GETs hold all leases that the server grants at once. No later request carries their
// releases, so these must leave alone, or the other GETs would wait until the leases expire.
TEST_F(KvBase, MoreGetsAtOnceThanTheServerGrantsLeasesAllSucceed) {
	Client& client = connect({.protocol = Protocol::rendezvous});
	const std::size_t count = 3 * server_options_.rendezvous_max;
	const std::string value = pattern(20'000, 1);
	loop_.complete(set_value(client, "key", value));
	for (std::size_t i = 0; i < count; ++i) loop_.spawn(expect_value(client, "key", value));
	loop_.run_until([&] { return client.counters().reads == count && client.under_way() == 0; });
	EXPECT_GT(client.counters().releases_alone, count / 2);
}

class KvLittleMemory : public KvBase {
protected:
	void SetUp() override { open({}, {}, 1 << 20); }
};

TEST_F(KvLittleMemory, AnEagerGetNeedsNoRegisteredMemoryOfTheClient) {
	Client& client = connect({.protocol = Protocol::eager});
	loop_.complete([](Client& client) -> Task<void> {
		const std::string value = pattern(512 << 10, 3);
		co_await set_value(client, "key", value);
		std::vector<channel::Buffer> held;
		while (channel::Buffer next = client.channel().memory()->take(64 << 10)) held.push_back(std::move(next));
		EXPECT_GE(held.size(), 8u);
		co_await expect_value(client, "key", value);
	}(client));
}

TEST_F(KvBase, TheRuleForEagerIsTheSameForSetAndGet) {
	Client& client = connect();
	loop_.complete([](Client& client) -> Task<void> {
		for (const std::size_t size : {4093, 4094, 4095, 4096, 4097, 4098}) {
			const std::uint64_t leased = client.counters().leased, reads = client.counters().reads;
			const std::string value = pattern(size - 3, 1);
			co_await set_value(client, "key", value);
			co_await expect_value(client, "key", value);
			EXPECT_EQ(client.counters().leased - leased, size < 4096 ? 0u : 1u) << size;
			EXPECT_EQ(client.counters().reads - reads, size < 4096 ? 0u : 1u) << size;
		}
	}(client));
}

class KvShortLeases : public KvBase {
protected:
	void SetUp() override { open({}, {.rendezvous_max = 4, .lease_ms = 50}); }
};

// A client asks for 40 leases, four of which it may hold at once, and sends nothing more. All of
// them expire, and another client is served meanwhile.
TEST_F(KvShortLeases, TheLeasesOfASilentClientExpireAndOthersAreServed) {
	Client& other = connect({.protocol = Protocol::rendezvous});
	auto silent = connect_raw();
	loop_.complete([](Client& other, channel::Channel& silent) -> Task<void> {
		const std::string value = pattern(100'000, 1);
		co_await set_value(other, "key", value);
		std::vector<std::byte> requests;
		for (std::uint32_t i = 0; i < 20; ++i) {
			append(requests, RequestHeader{.operation = Operation::get, .key_length = 3, .number = i});
			append(requests, bytes_of("key"));
			append(requests,
				RequestHeader{
					.operation = Operation::set_write, .key_length = 3, .number = 100 + i, .value_length = 9000});
			append(requests, bytes_of("abc"));
		}
		co_await silent.send(requests);
		for (int i = 0; i < 200; ++i) co_await expect_value(other, "key", value);
	}(other, *silent));
	loop_.run_until([&] { return counters_.leases_expired + counters_.places_expired == 40; });
	EXPECT_EQ(store_->size(), 1u);
	silent->close();
	loop_.run_until([&] { return silent->closed(); });
	silent.reset();
}

TEST_F(KvBase, AClientThatBreaksTheProtocolIsDisconnectedAndOthersAreServed) {
	Client& other = connect();
	auto bad = connect_raw();
	const std::string rubbish(40, 'x');
	loop_.complete([](channel::Channel& bad, std::string_view rubbish) -> Task<void> {
		const Bytes bytes = bytes_of(rubbish);
		co_await bad.send(bytes);
		const auto end = co_await bad.receive();
		EXPECT_FALSE(end.has_value());
	}(*bad, rubbish));
	const std::string& why = connections_.back()->why;
	loop_.run_until([&] { return !why.empty(); });
	EXPECT_NE(why.find("breaks the protocol"), std::string::npos);
	loop_.complete(set_value(other, "key", "value"));
}

TEST_F(KvBase, OperationsUnderWayFailWhenTheServerCloses) {
	Client& client = connect();
	int done = 0;
	const auto one = [](Client& client, int& done) -> Task<void> {
		auto value = co_await client.get("key");
		EXPECT_FALSE(value.has_value());
		++done;
	};
	for (int i = 0; i < 100; ++i) loop_.spawn(one(client, done));
	loop_.complete([](async::Loop& loop) -> Task<void> { co_await async::NextTurn(loop); }(loop_));
	connections_.front()->connection->channel().close();
	loop_.run_until([&] { return done == 100; });
	loop_.complete([](Client& client) -> Task<void> {
		while (!client.lost()) co_await async::NextTurn(client.channel().loop());
		auto value = co_await client.get("key");
		EXPECT_EQ(value.error(), Error::lost);
	}(client));
}

// One message of 2 MB asks for answers of 400 MB. The server must not build them all at once.
TEST_F(KvBase, TheAnswersToOneMessageAreMadeOnlyAsFastAsTheyLeave) {
	static constexpr std::uint64_t requests = 100'000, answers_waiting_max = 2000;
	Client& other = connect();
	loop_.complete(set_value(other, "key", pattern(4000, 1)));
	const auto raw = connect_raw();
	std::vector<std::byte> message;
	for (std::uint32_t i = 0; i < requests; ++i)
		append(message, request_for({.operation = Operation::get, .protocol = Protocol::eager, .number = i}, "key"));
	loop_.spawn([](channel::Channel& raw, const std::vector<std::byte>& message) -> Task<void> {
		co_await raw.send(message);
	}(*raw, message));
	loop_.complete([](channel::Channel& raw, const ServerCounters& counters) -> Task<void> {
		for (std::uint64_t answers = 0; answers < requests;) {
			auto received = co_await raw.receive();
			EXPECT_TRUE(received.has_value());
			if (!received) co_return;
			for (Answers each(received->bytes()); !each.done(); ++answers) EXPECT_TRUE(each.next().has_value());
			EXPECT_LE(counters.eager_gets - answers, answers_waiting_max);
			if (counters.eager_gets - answers > answers_waiting_max) co_return;
		}
	}(*raw, counters_));
}

class KvOneAtATime : public KvBase {
protected:
	void SetUp() override { open({}, {.rendezvous_max = 1}); }
};

TEST_F(KvOneAtATime, AQueuedGetHoldsNoVersion) {
	Client& other = connect({.protocol = Protocol::rendezvous});
	loop_.complete(set_value(other, "key", pattern(100'000, 0)));
	const std::size_t one_version = store_->used();
	const auto raw = connect_raw();
	for (std::uint32_t i = 1; i <= 10; ++i) {
		const std::uint64_t before = counters_.requests;
		const auto request =
			request_for({.operation = Operation::get, .protocol = Protocol::rendezvous, .number = i}, "key");
		loop_.spawn([](channel::Channel& raw, const std::vector<std::byte>& request) -> Task<void> {
			co_await raw.send(request);
		}(*raw, request));
		loop_.run_until([&] { return counters_.requests > before; });
		loop_.complete(set_value(other, "key", pattern(100'000, i)));
	}
	EXPECT_EQ(store_->used(), 2 * one_version) << "the present version and the leased one";

	// The second GET begins when the first releases its lease, and gets the newest version.
	loop_.complete([](channel::Channel& raw) -> Task<void> {
		for (int i = 0; i < 2; ++i) {
			auto message = co_await raw.receive();
			EXPECT_TRUE(message.has_value());
			if (!message) co_return;
			const auto answer = Answers(message->bytes()).next();
			EXPECT_EQ(answer->header.status, Status::remote);
			const channel::Buffer buffer = raw.memory()->take(answer->remote.length);
			channel::Place place(buffer);
			const auto read = co_await raw.read(std::move(place), answer->remote);
			EXPECT_TRUE(read.has_value());
			EXPECT_TRUE(text_of(buffer.bytes()) == pattern(100'000, i == 0 ? 0 : 10));
			const auto release = request_for({.operation = Operation::release, .release = answer->header.lease}, "");
			co_await raw.send(release);
		}
	}(*raw));
}

class KvLeasesOfTwoSeconds : public KvBase {
protected:
	void SetUp() override { open({}, {.rendezvous_max = 2, .lease_ms = 2000}); }
};

TEST_F(KvLeasesOfTwoSeconds, ALeaseExpiresAtItsOwnTimeAlsoWhenAnotherBeginsMeanwhile) {
	Client& other = connect();
	loop_.complete(set_value(other, "key", pattern(100'000, 0)));
	const auto raw = connect_raw();
	loop_.complete([](channel::Channel& raw) -> Task<void> {
		const auto request = request_for({.operation = Operation::get, .protocol = Protocol::rendezvous}, "key");
		co_await raw.send(request);
		co_await raw.loop().sleep_for(1'000'000'000);  // the second lease begins halfway
		co_await raw.send(request);
		co_await raw.send(request);  // the third waits until the first lease expires
	}(*raw));
	loop_.run_until([&] { return counters_.leases_expired >= 2; });
	EXPECT_EQ(counters_.leases_expired, 2u) << "the second lease expired only with the third";
	EXPECT_EQ(counters_.leased_gets, 3u);
}

TEST_F(KvBase, OpenFailsAtItsDeadlineIfTheServerDoesNotAnswer) {
	auto [ours, silent] = transports_.connect();
	loop_.complete([](std::unique_ptr<channel::Channel> channel) -> Task<void> {
		auto opened = co_await Client::open(std::move(channel), ClientOptions(), monotonic_now() + 50'000'000);
		EXPECT_FALSE(opened.has_value());
		EXPECT_EQ(opened ? "" : opened.error(), "the server does not answer");
	}(std::move(ours)));
}

TEST(KvClient, NoEmptyMessageGoesBeforeAKeyThatIsLongerThanSharedMessages) {
	async::Loop loop;
	auto sockets = channel::testing_tools::connected_sockets(loop);
	auto ours =
		std::make_unique<channel::TcpChannel>(loop, std::move(sockets[0]), std::nullopt, "server", tcp_options());
	channel::TcpChannel server(loop, std::move(sockets[1]), std::nullopt, "client", tcp_options());
	const std::string key(key_max, 'k'), value = pattern(10'000, 1);
	std::size_t first = 0;
	loop.spawn([](channel::Channel& server, std::size_t& first) -> Task<void> {
		(void)co_await server.receive();
		const Hello hello{.side = Hello::from_server, .value_max = value_max, .requests_max = 10, .message_max = 1024};
		const Bytes greeting = bytes_of(hello);
		co_await server.send(greeting);
		auto request = co_await server.receive();
		if (request) first = request->bytes().size();
		server.close();
	}(server, first));
	loop.complete(
		[](std::unique_ptr<channel::Channel> channel, const std::string& key, const std::string& value) -> Task<void> {
			auto opened = co_await Client::open(std::move(channel), ClientOptions());
			EXPECT_TRUE(opened.has_value());
			if (!opened) co_return;
			const Bytes bytes = bytes_of(value);
			const auto set = co_await (**opened).set(key, bytes);
			EXPECT_EQ(set.error(), Error::lost);
		}(std::move(ours), key, value));
	EXPECT_EQ(first, RequestHeader::bytes + key.size() + value.size());
	loop.abandon_spawned();
}

TEST(KvClient, AnAnswerWithRemoteMemoryOverTcpBreaksTheProtocol) {
	async::Loop loop;
	auto sockets = channel::testing_tools::connected_sockets(loop);
	auto ours =
		std::make_unique<channel::TcpChannel>(loop, std::move(sockets[0]), std::nullopt, "server", tcp_options());
	channel::TcpChannel hostile(loop, std::move(sockets[1]), std::nullopt, "client", tcp_options());
	loop.spawn([](channel::Channel& hostile) -> Task<void> {
		(void)co_await hostile.receive();
		const Hello hello{.side = Hello::from_server, .value_max = value_max, .requests_max = 10, .message_max = 8192};
		const Bytes greeting = bytes_of(hello);
		co_await hostile.send(greeting);
		auto request = co_await hostile.receive();
		if (!request) co_return;
		const RemoteMemory nowhere{.address = 4096, .length = 100, .rkey = 1};
		std::vector<std::byte> answer;
		append(answer,
			AnswerHeader{.status = Status::remote,
				.number = Requests(request->bytes()).next()->header.number,
				.value_length = 100});
		append(answer, bytes_of(nowhere));
		co_await hostile.send(answer);
	}(hostile));
	loop.complete([](std::unique_ptr<channel::Channel> channel) -> Task<void> {
		auto opened = co_await Client::open(std::move(channel), ClientOptions());
		EXPECT_TRUE(opened.has_value());
		if (!opened) co_return;
		Client& client = **opened;
		auto value = co_await client.get("key");
		EXPECT_EQ(value.error(), Error::lost);
		EXPECT_NE(client.why_lost().find("breaks the protocol"), std::string::npos);
	}(std::move(ours)));
	loop.abandon_spawned();
}

}  // namespace
}  // namespace verbena::kv
