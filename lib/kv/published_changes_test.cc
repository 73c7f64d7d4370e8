// SPDX-License-Identifier: Apache-2.0
// Changes with a journal, over connections: one-sided GETs, and the end of a server.
#include "lib/kv/changes_fixture.h"
#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

class PublishedChanges : public KvBase {
protected:
	void SetUp() override {
		journal_ = &held_;
		open({.index_bytes = Index::bytes_min, .window = 64}, {});
	}
	// The value that a one-sided GET would find now.
	std::string published(std::string_view key) const {
		const Index& index = *store_->index();
		const std::uint64_t hash = index_hash(key, index.shape().seed);
		const std::size_t at = (hash & (index.shape().lines - 1)) * line_bytes;
		const Bytes area = index.area().bytes();
		const SeenLine seen = read_line(area.subspan(at, line_bytes), key, hash, area.size());
		return seen.seen == Seen::inside ? std::string(text_of(seen.value)) : "(none)";
	}
	TestJournal held_;
};

TEST_F(PublishedChanges, AOneSidedGetSeesAChangeOnceItIsHeldAndNotBefore) {
	Client& client = connect({.one_sided = true});
	loop_.complete(set_value(client, "key", "one"));
	loop_.complete(expect_value(client, "key", "one"));
	ASSERT_EQ(published("key"), "one");
	int seen = 0;
	held_.before_commit = [&] {
		EXPECT_EQ(published("key"), "one");
		++seen;
	};
	loop_.complete(set_value(client, "key", "two"));
	EXPECT_EQ(seen, 1);
	EXPECT_EQ(published("key"), "two") << "a held change is published, with a journal too";
	held_.before_commit = nullptr;
	held_.fails = true;
	loop_.complete([](Client& client) -> async::Task<void> {
		const auto done = co_await client.set("key", bytes_of("three"));
		EXPECT_EQ(done.error(), Error::disk);
		const auto removed = co_await client.remove("key");
		EXPECT_EQ(removed.error(), Error::disk);
	}(client));
	EXPECT_EQ(published("key"), "two");
	loop_.complete(expect_value(client, "key", "two"));
}

TEST_F(PublishedChanges, AStoppingServerDecidesTheChangesThatWaitBeforeItSaysSo) {
	connect();
	KeptAnswers answers;
	changes_->set({.asker = answers, .number = 1}, "key", bytes_of("value"));
	EXPECT_EQ(answers.to(1), std::nullopt);
	connections_.back()->connection->stop();
	EXPECT_EQ(answers.to(1), Status::good);
	EXPECT_EQ(held_.content.at("key"), "value");
}

}  // namespace
}  // namespace verbena::kv
