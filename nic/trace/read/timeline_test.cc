// SPDX-License-Identifier: Apache-2.0
#include "nic/trace/read/timeline.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace verbena::trace {
namespace {

using nlohmann::json;

constexpr std::string_view client =
	R"({"time_ns":1000,"pid":1,"program":"client","thread":10,"event":"verb","verb":"ibv_create_qp","ns":500,"line":"a"}
{"time_ns":2000,"pid":1,"program":"client","thread":10,"event":"post_send","qp":7,"opcode":"SEND","wr_id":4}
{"time_ns":2500,"pid":1,"program":"client","thread":10,"event":"sent","qp":7,"peer_qp":8,"opcode":"RC SEND_ONLY","psn":3}
{"time_ns":5000,"pid":1,"program":"client","thread":10,"event":"finished","qp":7,"opcode":"SEND","wr_id":4}
{"time_ns":6500,"pid":1,"program":"client","thread":10,"event":"polled","qp":7,"opcode":"SEND","wr_id":4,"ns_since_completion":1500}
{"time_ns":7000,"pid":1,"program":"client","thread":10,"event":"post_send","qp":7,"opcode":"SEND","wr_id":5}
)";
constexpr std::string_view server =
	R"({"time_ns":3000,"pid":2,"program":"server","thread":20,"event":"arrived","qp":8,"peer_qp":7,"opcode":"RC SEND_ONLY","psn":3}
{"time_ns":4000,"pid":2,"program":"server","thread":20,"event":"received","qp":8,"wr_id":1,"failed":true,"line":"it failed"}
)";

std::vector<json> events_of(Timeline& timeline) {
	return json::parse(timeline.render()).at("traceEvents").get<std::vector<json>>();
}

std::vector<json> with_phase(const std::vector<json>& events, std::string_view phase) {
	std::vector<json> found;
	for (const json& event : events)
		if (event.at("ph") == phase) found.push_back(event);
	return found;
}

TEST(Timeline, APacketLeadsFromTheProcessThatSentItToTheOneWhereItArrived) {
	Timeline timeline;
	EXPECT_EQ(timeline.add_lines(server), 2u);  // the order of the files does not matter
	EXPECT_EQ(timeline.add_lines(client), 6u);
	const auto events = events_of(timeline);
	const auto from = with_phase(events, "s"), to = with_phase(events, "f");
	ASSERT_EQ(from.size(), 1u);
	ASSERT_EQ(to.size(), 1u);
	EXPECT_EQ(from[0]["id"], to[0]["id"]);
	EXPECT_EQ(from[0]["pid"], 1);
	EXPECT_EQ(to[0]["pid"], 2);
	EXPECT_DOUBLE_EQ(to[0]["ts"].get<double>() - from[0]["ts"].get<double>(), 0.5);  // microseconds
}

TEST(Timeline, ARequestLastsFromItsPostToItsFinishAndItsCompletionUntilItIsPolled) {
	Timeline timeline;
	timeline.add_lines(client);
	const auto events = events_of(timeline);
	const auto begins = with_phase(events, "b"), ends = with_phase(events, "e");
	ASSERT_EQ(begins.size(), 3u);
	ASSERT_EQ(ends.size(), 2u);  // the second request never finished
	EXPECT_EQ(begins[0]["name"], "qp 0x7 SEND");
	EXPECT_DOUBLE_EQ(begins[0]["ts"], 1.0);
	EXPECT_DOUBLE_EQ(ends[0]["ts"], 4.0);
	EXPECT_EQ(begins[1]["name"], "qp 0x7 completed, not polled");
	EXPECT_DOUBLE_EQ(begins[1]["ts"], 4.0);
	EXPECT_DOUBLE_EQ(ends[1]["ts"], 5.5);
	EXPECT_NE(begins[2]["id2"], begins[0]["id2"]);
	const auto calls = with_phase(events, "X");
	EXPECT_EQ(calls[0]["name"], "ibv_create_qp");
	EXPECT_DOUBLE_EQ(calls[0]["dur"], 0.5);
}

TEST(Timeline, AFailureIsAMarkThatSaysWhatFailed) {
	Timeline timeline;
	timeline.add_lines(server);
	const auto marks = with_phase(events_of(timeline), "i");
	ASSERT_EQ(marks.size(), 1u);
	EXPECT_EQ(marks[0]["name"], "it failed");
}

TEST(Timeline, LinesThatAreNoEventsAreLeftOut) {
	Timeline timeline;
	for (const char* const line : {"", "{", "[1]", "{}", "{\"event\":\"sent\"}", "{\"time_ns\":-4,\"event\":\"sent\"}",
			 "{\"time_ns\":\"x\",\"event\":7}", "text\n\n{\"time_ns\":1}"})
		EXPECT_EQ(timeline.add_lines(line), 0u) << line;
	EXPECT_TRUE(events_of(timeline).empty());
	EXPECT_EQ(timeline.add_lines(R"({"time_ns":1,"event":"sent","qp":"7","psn":1e99,"program":"\ud800"})"), 0u);
	EXPECT_EQ(timeline.add_lines(R"({"time_ns":1,"event":"sent","qp":"7","psn":1e9,"program":[]})"), 1u);
	EXPECT_EQ(events_of(timeline).size(), 4u);  // two names, the packet, and its way
}

}  // namespace
}  // namespace verbena::trace
