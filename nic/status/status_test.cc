// SPDX-License-Identifier: Apache-2.0
#include "nic/status/status.h"

#include <gtest/gtest.h>

namespace verbena::status {
namespace {

Process example() {
	return {.pid = 812,
		.uid = 1000,
		.time = 123456789,
		.program = "my server",
		.counters = {{"counters/port_xmit_packets", 7}, {"hw_counters/send_rnr_err", ~std::uint64_t{0}}},
		.queue_pairs = {{.qpn = 0x1007,
							.type = "RC",
							.state = "RTS",
							.peer_qpn = 0x2003,
							.peer_pid = 9,
							.link = "memory",
							.waits = "receive",
							.sends_posted = 5,
							.sends_done = 0xfffffffe,
							.receives_posted = 500,
							.receives_taken = 12,
							.retries_left = 7,
							.unpolled = 3,
							.peer_address = "192.0.2.1",
							.path_mtu = 1024,
							.max_rd_atomic = 4,
							.max_dest_rd_atomic = 16},
			{.qpn = 3, .type = "UD", .state = "INIT", .link = "none", .waits = "nothing", .peer_address = "-"}}};
}

TEST(Status, IsReadAsItWasWritten) {
	const auto read = parse(render(example()));
	ASSERT_TRUE(read);
	EXPECT_EQ(*read, example());
	EXPECT_EQ(read->queue_pairs[0].sends_open(), 7u);  // modulo 2^32
	EXPECT_EQ(read->counter("counters/port_xmit_packets"), 7u);
	EXPECT_EQ(read->counter("none"), 0u);
}

TEST(Status, AnOlderProcessDoesNotSayItsMtu) {
	const auto read =
		parse("verbena status 1\nprocess 1 2 3 x\nqp 4103 RC RTS 8195 9 memory receive 5 4 500 12 7 3 192.0.2.1\n");
	ASSERT_TRUE(read);
	ASSERT_EQ(read->queue_pairs.size(), 1u);
	EXPECT_EQ(read->queue_pairs[0].peer_address, "192.0.2.1");
	EXPECT_EQ(read->queue_pairs[0].path_mtu, 0u);
}

TEST(Status, AProgramsNameWithANewLineAddsNoLine) {
	Process process = example();
	process.program = "a\nqp 1 RC";
	const auto read = parse(render(process));
	ASSERT_TRUE(read);
	EXPECT_EQ(read->program, "a?qp 1 RC");
	EXPECT_EQ(read->queue_pairs.size(), 2u);
}

TEST(Status, NoWordOfAnAnswerReachesATerminalAsACommand) {
	const auto read = parse(
		"verbena status 1\nprocess 1 2 3 \x1b[2J\ncounter \x1b]0 7\nqp 1 R\x1b"
		"C RTS 0 0 \x7f - 0 0 0 0 0 0 \x1b\n");
	ASSERT_TRUE(read);
	ASSERT_EQ(read->queue_pairs.size(), 1u);
	EXPECT_EQ(read->program, "?[2J");
	EXPECT_EQ(read->counters[0].first, "?]0");
	EXPECT_EQ(read->queue_pairs[0].type, "R?C");
	EXPECT_EQ(read->queue_pairs[0].peer_address, "?");
}

TEST(Status, LinesOfALaterVersionAreLeftOut) {
	const auto read = parse("verbena status 1\nprocess 1 2 3 p\nweather fine\ncounter x\nqp 1 RC\ncounter x 4 5\n");
	ASSERT_TRUE(read);
	EXPECT_EQ(read->counter("x"), 4u);
	EXPECT_TRUE(read->queue_pairs.empty());
}

TEST(Status, ATextThatIsNoneIsRefused) {
	for (const char* const text : {"", "\n", "verbena status 2\n", "verbena status 1\n",
			 "verbena status 1\ncounter x 1\n", "verbena status 1\nprocess x 1 1 p\n", "verbena status 1\n\n"})
		EXPECT_FALSE(parse(text)) << text;
	std::string whole = render(example());
	for (std::size_t cut = 0; cut < whole.size(); ++cut) parse(whole.substr(0, cut));
	for (char& byte : whole) {
		const char kept = byte;
		for (const char other : {'\0', ' ', '\n', '9', '\xff'}) {
			byte = other;
			parse(whole);
		}
		byte = kept;
	}
}

}  // namespace
}  // namespace verbena::status
