// SPDX-License-Identifier: Apache-2.0
// One-sided GETs: which keys are published, how a client reads them, and that torn reads are
// detected.
#include "lib/kv/index.h"

#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

// Reads the area directly, without RDMA.
class IndexTest : public ::testing::Test {
protected:
	void SetUp() override {
		transports_.open();
		index_ = Index::make(transports_[0].memory(), Index::bytes_min);
		ASSERT_TRUE(index_);
	}
	Bytes area() const { return index_->area().bytes(); }
	std::span<std::byte> line_of(std::string_view key) const {
		const std::uint64_t hash = index_hash(key, index_->shape().seed);
		return index_->area().bytes().subspan((hash & (index_->shape().lines - 1)) * line_bytes, line_bytes);
	}
	SeenLine look(std::string_view key) const { return look(line_of(key), key); }
	SeenLine look(Bytes line, std::string_view key) const {
		return read_line(line, key, index_hash(key, index_->shape().seed), area().size());
	}
	std::string get(std::string_view key) const {
		const SeenLine found = look(key);
		if (found.seen == Seen::absent) return "(absent)";
		if (found.seen == Seen::torn) return "(torn)";
		if (found.seen == Seen::inside) return std::string(text_of(found.value));
		const Bytes record = area().subspan(found.header.offset, found.header.record_bytes());
		return read_record(record, found.header, key) == Seen::outside
			? std::string(text_of(record.first(found.header.value_length)))
			: "(torn)";
	}

	async::Loop loop_;
	channel::testing_tools::TwoTransports transports_{loop_};
	std::unique_ptr<Index> index_;
};

TEST_F(IndexTest, OnlyAPublishedKeyIsFound) {
	EXPECT_EQ(get("key"), "(absent)");
	for (const std::size_t size : {0, 1, 100, 212, 213, 214, 1000, 60'000}) {
		const std::string value = pattern(size, 1);
		index_->publish("key", bytes_of(value));
		EXPECT_EQ(get("key"), value) << size;
		EXPECT_EQ(look("key").seen, size + 3 <= inside_max ? Seen::inside : Seen::outside) << size;
	}
	EXPECT_EQ(get("other"), "(absent)");
	index_->withdraw("key");
	EXPECT_EQ(get("key"), "(absent)");
}

TEST_F(IndexTest, ASetOfAPublishedKeyPublishesTheNewValueOrWithdrawsTheKey) {
	index_->set("key", bytes_of("not published"));
	EXPECT_EQ(get("key"), "(absent)");
	index_->publish("key", bytes_of("one"));
	index_->set("key", bytes_of("two"));
	EXPECT_EQ(get("key"), "two");
	const std::string large(Index::refreshed_max, 'x');
	index_->set("key", bytes_of(large));
	EXPECT_EQ(get("key"), large);
	index_->set("key", bytes_of(large + "x"));
	EXPECT_EQ(get("key"), "(absent)");
}

TEST_F(IndexTest, TheOldestRecordsAreEvictedAndAllOthersStayWhole) {
	const auto key_of = [](int i) { return "key " + std::to_string(i); };
	for (int i = 0; i < 2000; ++i) {
		index_->publish(
			key_of(i), bytes_of(pattern(static_cast<std::size_t>(1000 + i * 7 % 9000), static_cast<unsigned>(i))));
		for (int j = std::max(0, i - 20); j <= i; ++j) {
			const std::string found = get(key_of(j)),
							  wanted = pattern(static_cast<std::size_t>(1000 + j * 7 % 9000), static_cast<unsigned>(j));
			// "(absent)": a later key may have the same line.
			ASSERT_TRUE(found == wanted || (j < i && found == "(absent)")) << i << ' ' << j;
		}
	}
	EXPECT_GT(index_->counters().evicted, 1000u);
	EXPECT_EQ(get(key_of(0)), "(absent)");
}

TEST_F(IndexTest, AValueThatIsTooLargeForTheAreaIsNotPublished) {
	index_->publish("key", bytes_of("small"));
	index_->publish("key", bytes_of(std::string(Index::bytes_min / 2, 'x')));
	EXPECT_EQ(get("key"), "(absent)");
}

TEST_F(IndexTest, AMixtureOfTwoVersionsIsTornOrReadsAsOneOfThem) {
	const std::string one(150, 'a'), two(170, 'b');
	index_->publish("key", bytes_of(one));
	const std::vector<std::byte> before(line_of("key").begin(), line_of("key").end());
	index_->set("key", bytes_of(two));
	const std::vector<std::byte> after(line_of("key").begin(), line_of("key").end());
	for (std::size_t cut = 1; cut < line_bytes; ++cut)
		for (const bool front_is_new : {true, false}) {
			std::vector<std::byte> mixed = front_is_new ? after : before;
			const std::vector<std::byte>& back = front_is_new ? before : after;
			std::copy(back.begin() + static_cast<std::ptrdiff_t>(cut), back.end(),
				mixed.begin() + static_cast<std::ptrdiff_t>(cut));
			const SeenLine found = look(mixed, "key");
			if (found.seen == Seen::torn) continue;
			ASSERT_EQ(found.seen, Seen::inside) << cut;
			ASSERT_TRUE(text_of(found.value) == one || text_of(found.value) == two) << cut;
		}
}

TEST_F(IndexTest, ARecordThatWasOverwrittenMeanwhileIsTorn) {
	index_->publish("key", bytes_of(std::string(1000, 'a')));
	const SeenLine found = look("key");
	ASSERT_EQ(found.seen, Seen::outside);
	const Bytes record = area().subspan(found.header.offset, found.header.record_bytes());
	EXPECT_EQ(read_record(record, found.header, "key"), Seen::outside);
	// The new record overwrites the old one, because it has the same length.
	index_->set("key", bytes_of(std::string(1000, 'b')));
	EXPECT_EQ(look("key").header.offset, found.header.offset);
	EXPECT_EQ(read_record(record, found.header, "key"), Seen::torn);
}

TEST_F(IndexTest, ALineThatPointsOutsideOfTheAreaIsNotFollowed) {
	index_->publish("key", bytes_of(std::string(1000, 'a')));
	auto& header = *reinterpret_cast<LineHeader*>(line_of("key").data());
	for (const std::uint32_t offset : {0u, 0xffff'ffffu, static_cast<std::uint32_t>(area().size() - 100)}) {
		header.offset = offset;
		header.checksum = header.own_checksum();
		EXPECT_NE(look("key").seen, Seen::outside) << offset;
	}
}

class OneSided : public KvBase {
protected:
	void SetUp() override { open({.index_bytes = 8 << 20}, {}); }
	// The records sent and received, without releases that found no request to carry them.
	static std::uint64_t records(const Client& client) {
		const ClientCounters& of = client.counters();
		return of.records_sent + of.records_received - of.releases_alone;
	}
};

TEST_F(OneSided, AGetTakesNoMessageOnceItsKeyIsPublished) {
	Client& client = connect({.one_sided = true});
	loop_.complete([](Client& client) -> Task<void> {
		for (const std::size_t size : {0, 1, 200, 5000, 50'000}) {
			const std::string value = pattern(size, 1), key = "key " + std::to_string(size);
			co_await set_value(client, key, value);
			co_await expect_value(client, key, value);
			const std::uint64_t before = records(client);
			for (int i = 0; i < 10; ++i) co_await expect_value(client, key, value);
			EXPECT_EQ(records(client) - before, 0u) << size;
		}
	}(client));
	EXPECT_EQ(client.counters().one_sided, 50u);
	EXPECT_EQ(client.counters().one_sided_asked, 5u);
}

TEST_F(OneSided, AMissingKeyAndARemovedOneAreReportedAsMissing) {
	Client& client = connect({.one_sided = true});
	loop_.complete([](Client& client) -> Task<void> {
		auto missing = co_await client.get("key");
		EXPECT_EQ(missing.error(), Error::missing);
		co_await set_value(client, "key", "value");
		co_await expect_value(client, "key", "value");
		co_await expect_value(client, "key", "value");
		(void)co_await client.remove("key");
		auto removed = co_await client.get("key");
		EXPECT_EQ(removed.error(), Error::missing);
	}(client));
}

TEST_F(OneSided, AGetSeesEverySetThatWasAcknowledgedBefore) {
	Client &writer = connect(), &reader = connect({.one_sided = true});
	loop_.complete([](Client& writer, Client& reader) -> Task<void> {
		for (int i = 0; i < 2000; ++i) {
			const std::string value = pattern(static_cast<std::size_t>(i * 37 % 3000), static_cast<unsigned>(i));
			co_await set_value(writer, "key", value);
			co_await expect_value(reader, "key", value);
		}
	}(writer, reader));
	EXPECT_GT(reader.counters().one_sided, 1900u);
}

TEST_F(OneSided, AGetIsNeverTornWhileItsKeyIsOverwritten) {
	Client &writer = connect(), &second = connect(), &reader = connect({.one_sided = true}),
		   &other = connect({.one_sided = true});
	int writing = 2, reads = 0;
	loop_.spawn(overwrite(writer, 2000, 20'000, writing));
	loop_.spawn(overwrite(second, 2000, 150, writing));
	loop_.spawn(read_whole(reader, writing, reads));
	loop_.spawn(read_whole(other, writing, reads));
	loop_.run_until([&] { return writing == 0; });
	loop_.run_until([&] { return reader.under_way() == 0 && other.under_way() == 0; });
	EXPECT_GT(reads, 100);
}

TEST_F(OneSided, PublishingAKeyDoesNotCountAgainstTheStoresLimit) {
	EXPECT_EQ(store_->used(), 0u);
	Client& client = connect({.one_sided = true});
	loop_.complete(set_value(client, "key", "value"));
	const std::size_t used = store_->used();
	loop_.complete(expect_value(client, "key", "value"));
	EXPECT_EQ(store_->used(), used);
}

TEST_F(OneSided, TwoRequestsForTheIndexBreakTheProtocol) {
	connect({.one_sided = true});
	auto bad = connect_raw();
	loop_.complete([](channel::Channel& bad) -> Task<void> {
		std::vector<std::byte> requests;
		append(requests, RequestHeader{.operation = Operation::index});
		append(requests, RequestHeader{.operation = Operation::index, .number = 1});
		co_await bad.send(requests);
		while (co_await bad.receive()) {}
	}(*bad));
	const std::string& why = connections_.back()->why;
	loop_.run_until([&] { return !why.empty(); });
	EXPECT_NE(why.find("breaks the protocol"), std::string::npos);
}

TEST_F(KvBase, OpenFailsWithAHintIfTheServerPublishesNothing) {
	auto ours = connect_without_greeting();
	loop_.complete([](std::unique_ptr<channel::Channel> channel) -> Task<void> {
		const ClientOptions options{.one_sided = true};
		auto opened = co_await Client::open(std::move(channel), options);
		EXPECT_FALSE(opened.has_value());
		EXPECT_NE((opened ? std::string() : opened.error()).find("--one-sided"), std::string::npos);
	}(std::move(ours)));
}

}  // namespace
}  // namespace verbena::kv
