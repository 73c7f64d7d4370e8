// SPDX-License-Identifier: Apache-2.0
// A client whose server is of an earlier version: it is not asked for what it does not know.
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

// Opens a client whose server greets with these features.
Task<void> open_at(std::unique_ptr<channel::Channel> ours, channel::Channel& theirs, std::uint64_t features,
	ClientOptions options, std::expected<std::unique_ptr<Client>, std::string>& client) {
	const Hello hello{.side = Hello::from_server, .requests_max = 1, .features = features};
	const Bytes greeting = bytes_of(hello);
	co_await theirs.send(greeting);
	client = co_await Client::open(std::move(ours), options);
}

class OtherServer : public KvBase {
protected:
	std::expected<std::unique_ptr<Client>, std::string> open(
		std::uint64_t features, const ClientOptions& options = {}) {
		auto [ours, theirs] = transports_.connect();
		theirs_ = std::move(theirs);
		std::expected<std::unique_ptr<Client>, std::string> client;
		loop_.complete(open_at(std::move(ours), *theirs_, features, options, client));
		return client;
	}
	void TearDown() override {
		theirs_.reset();
		KvBase::TearDown();
	}
	std::unique_ptr<channel::Channel> theirs_;
};

TEST_F(OtherServer, AServerWithoutTimesToLiveIsNotAskedForOne) {
	const auto client = open(feature_info | feature_scan);
	ASSERT_TRUE(client) << client.error();
	Result<void> result;
	loop_.complete([](Client& client, Result<void>& result) -> Task<void> {
		const Bytes value = bytes_of("value");
		Call call = client.set("key", value, {.ttl_ms = 1000});
		result = co_await call;
	}(**client, result));
	EXPECT_EQ(result.error(), Error::old_server);
	EXPECT_EQ((*client)->counters().records_sent, 0u);
}

TEST_F(OtherServer, AServerWithoutEventsIsNotAskedForThem) {
	struct Sink final : EventSink {
		void take_event(EventKind, std::string_view, std::uint64_t) override { FAIL(); }
		void refuse(Error why) override { error = why; }
		std::optional<Error> error;
	} sink;
	const auto client = open(server_features & ~feature_watch);
	ASSERT_TRUE(client) << client.error();
	(*client)->watch(1, "key", Scope::key, sink);
	EXPECT_EQ(sink.error, Error::old_server);
	EXPECT_FALSE((*client)->watches(1));
	EXPECT_EQ((*client)->counters().records_sent, 0u);
}

TEST_F(OtherServer, AServerThatDoesNotFollowTheRulesOfAClusterIsNotUsedInOne) {
	const auto client = open(server_features, {.of_cluster = true});
	ASSERT_FALSE(client);
	EXPECT_NE(client.error().find("--join"), std::string::npos) << client.error();
	EXPECT_TRUE(open(server_features | feature_cluster, {.of_cluster = true}));
}

}  // namespace
}  // namespace verbena::kv
