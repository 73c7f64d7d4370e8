// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/facts.h"

#include <map>

#include "lib/kv/fixture.h"

namespace verbena::kv {
namespace {

using namespace testing_tools;

// The lines of a text by their names. Each has a name of its own.
std::map<std::string, std::string> lines_of(std::string_view text) {
	std::map<std::string, std::string> lines;
	while (!text.empty()) {
		const std::size_t end = text.find('\n'), colon = text.find(": ");
		EXPECT_NE(end, text.npos);
		EXPECT_LT(colon, end);
		EXPECT_TRUE(lines.emplace(text.substr(0, colon), text.substr(colon + 2, end - colon - 2)).second) << text;
		text.remove_prefix(end + 1);
	}
	return lines;
}

TEST(Facts, TheTextHasALineForEachFact) {
	Facts facts{.version = "1.2.3", .identity = 0x1a, .features = feature_info, .uptime = 61'500'000'000, .keys = 7};
	facts.server.meter.count(RequestKind::get, Status::good, 0);
	facts.server.meter.count(RequestKind::remove, Status::missing, 0);
	const auto lines = lines_of(text_of(facts));
	EXPECT_EQ(lines.at("version"), "1.2.3");
	EXPECT_EQ(lines.at("identity"), "000000000000001a");
	EXPECT_EQ(lines.at("features"), "info");
	EXPECT_EQ(lines.at("uptime_s"), "61");
	EXPECT_EQ(lines.at("keys"), "7");
	EXPECT_EQ(lines.at("requests_get_good"), "1");
	EXPECT_EQ(lines.at("requests_del_missing"), "1");
	EXPECT_FALSE(lines.contains("requests_set_good")) << "there was none";
	EXPECT_EQ(lines.at("durable"), "no");
	EXPECT_FALSE(lines.contains("journal_commits"));
}

TEST(Facts, AServerWithAJournalReportsIt) {
	Facts facts{.durable = true, .waiting = 3, .journal_failure = "the disk is full"};
	facts.commits.durations.record(1);
	facts.commits.failed = 1;
	const auto lines = lines_of(text_of(facts));
	EXPECT_EQ(lines.at("journal_commits"), "1");
	EXPECT_EQ(lines.at("journal_commits_failed"), "1");
	EXPECT_EQ(lines.at("journal_waiting_changes"), "3");
	EXPECT_EQ(lines.at("journal_works"), "no");
}

class Info : public KvBase, private FactSource {
protected:
	Facts facts() const override { return {.keys = store_->size(), .server = counters_}; }
	Task<void> ask(Client& client, Result<std::string>& text) {
		auto answer = co_await client.info();
		if (answer) text = std::string(text_of(answer->bytes()));
		else text = std::unexpected(answer.error());
	}
	Result<std::string> info(Client& client) {
		Result<std::string> text;
		loop_.complete(ask(client, text));
		return text;
	}
	const FactSource* self() const { return this; }
};

TEST_F(Info, AClientGetsTheFactsOfItsServer) {
	facts_ = self();
	Client& client = connect();
	loop_.complete(set_value(client, "key", "value"));
	const auto first = info(client);
	ASSERT_TRUE(first) << sentence_of(first.error());
	EXPECT_EQ(lines_of(*first).at("keys"), "1");
	EXPECT_EQ(lines_of(*first).at("requests_set_good"), "1");
	EXPECT_EQ(lines_of(*info(client)).at("requests_info_good"), "1");
}

TEST_F(Info, AServerThatDoesNotKnowInfoIsNotAsked) {
	Client& client = connect();
	EXPECT_EQ(info(client).error(), Error::old_server);
	EXPECT_EQ(counters_.requests, 0u);
	loop_.complete(set_value(client, "key", "value"));
}

TEST_F(Info, ManyRequestsForFactsHoldUpNoOtherClient) {
	facts_ = self();
	const auto raw = connect_raw();
	constexpr std::uint64_t records = 500;
	std::vector<std::byte> message;
	for (std::uint64_t i = 0; i < records; ++i) append(message, request_for({.operation = Operation::info}, ""));
	loop_.spawn([](channel::Channel& raw, std::vector<std::byte> message) -> Task<void> {
		co_await raw.send(message);
		for (std::uint64_t answers = 0; answers < records;) {
			const auto some = co_await raw.receive();
			if (!some) break;
			for (Answers each(some->bytes()); !each.done(); ++answers) EXPECT_TRUE(each.next().has_value());
		}
	}(*raw, std::move(message)));
	EXPECT_LE(most_in_a_turn(records), 2 * 64u);
	EXPECT_EQ(counters_.malformed, 0u);
}

}  // namespace
}  // namespace verbena::kv
