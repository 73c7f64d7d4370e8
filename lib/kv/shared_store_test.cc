// SPDX-License-Identifier: Apache-2.0
// A store whose memory clients access through several devices.
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

constexpr std::size_t in_one_message = 100, by_rendezvous = 100'000;

class SharedStore : public KvBase {
protected:
	void SetUp() override { open({.memory_max = 64 << 20, .index_bytes = Index::bytes_min}, {}); }
	// Opens a further transport of the server, and shares the store with it.
	void share() {
		auto opened = channel::RcTransport::open(
			loop_, channel::testing_tools::test_device(), server_rc_options({.connections_max = 80}, value_max));
		ASSERT_TRUE(opened.has_value()) << opened.error();
		further_ = std::move(*opened);
		ASSERT_TRUE(store_->share(further_->memory()));
	}
	void set(Client& client, std::string_view key, std::size_t size) {
		loop_.complete(set_value(client, key, pattern(size, 1)));
	}
	void expect(Client& client, std::string_view key, std::size_t size) {
		loop_.complete(expect_value(client, key, pattern(size, 1)));
	}
};

TEST_F(SharedStore, AClientAtAFurtherDeviceGetsValuesOfBeforeAndOfAfterItsOpening) {
	Client& before = connect();
	set(before, "old", by_rendezvous);
	share();
	Client& after = connect();
	expect(after, "old", by_rendezvous);
	set(after, "new", by_rendezvous);
	set(after, "short", in_one_message);
	for (Client* const each : {&before, &after}) {
		expect(*each, "old", by_rendezvous);
		expect(*each, "new", by_rendezvous);
		expect(*each, "short", in_one_message);
	}
	EXPECT_GT(after.counters().reads, 0u) << "values that the client read from the store's memory";
}

TEST_F(SharedStore, AClientAtAFurtherDeviceWritesItsValuesIntoTheStoresMemory) {
	share();
	Client &writer = connect({.protocol = Protocol::rendezvous, .form = Form::write}), &reader = connect();
	for (int i = 0; i < 20; ++i) set(writer, "key " + std::to_string(i), by_rendezvous);
	for (int i = 0; i < 20; ++i) expect(reader, "key " + std::to_string(i), by_rendezvous);
	EXPECT_EQ(counters_.written_sets, 20u);
}

TEST_F(SharedStore, SegmentsThatAreMadeLaterAreSharedToo) {
	share();
	Client& client = connect();
	for (int i = 0; i < 40; ++i) set(client, "key " + std::to_string(i), 1'000'000);
	for (int i = 0; i < 40; ++i) expect(client, "key " + std::to_string(i), 1'000'000);
}

TEST_F(SharedStore, AClientAtAFurtherDeviceReadsThePublishedKeys) {
	Client& before = connect({.one_sided = true});
	share();
	Client& after = connect({.one_sided = true});
	set(before, "key", in_one_message);
	for (Client* const each : {&before, &after})
		for (int i = 0; i < 3; ++i) expect(*each, "key", in_one_message);
	EXPECT_GE(before.counters().one_sided, 2u);
	EXPECT_GE(after.counters().one_sided, 2u);
}

// A pool that asks for access which no device grants: remote writing without local writing.
TEST_F(SharedStore, ADeviceThatRefusesTheMemoryLeavesTheStoreAsItWas) {
	Client& client = connect();
	set(client, "key", by_rendezvous);
	channel::MemoryPool refuses(transports_[1].device().domain.get(), IBV_ACCESS_REMOTE_WRITE, {});
	EXPECT_FALSE(store_->share(refuses));
	EXPECT_EQ(refuses.in_use(), 0u);
	set(client, "another", 10'000'000);
	expect(client, "another", 10'000'000);
	expect(client, "key", by_rendezvous);
}

}  // namespace
}  // namespace verbena::kv
