// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "bench/rcud/fan_in_sender_loop.h"
#include "bench/rcud/scripted_fan_in.h"

namespace verbena::rcud {

template class FanInSenderOn<ScriptedSenderOfMany>;

namespace {

Cell sender_cell(Mode mode, WindowMode window_mode = WindowMode::local) {
	return {.mode = mode, .window_mode = window_mode, .msg = 64, .window = 16, .qps = 12, .senders = 4};
}

// Sender 1 of four, which has three queue pairs, and a far end that is honest until a test changes
// it.
struct ScriptedSender : SenderWatcher {
	explicit ScriptedSender(const Cell& cell, std::uint64_t of_sender = 100, std::uint64_t seed = 0)
		: end(cell, fan_in_shape_of(cell, {}, {}).value(), 1, &word),
		  run{.number = 3, .total = of_sender * cell.senders, .seed = seed} {
		sender.post_receives();
		end.otherwise = [this] { answer(); };
	}

	bool has_credits() const { return end.cell.window_mode == WindowMode::credit; }
	void answer() {
		if (has_credits()) give_credit(end.all_sends.size());
		end.complete_all();
	}
	void give_credit(std::uint64_t count, std::uint16_t number = 3, const Script::Edit& edit = {}) {
		if (!end.is_ud()) {
			word = make_stamp(number, count);
			return;
		}
		end.arrive({}, 40, [&](ibv_wc& wc) {
			wc.wc_flags = IBV_WC_WITH_IMM;
			wc.imm_data = htonl(make_credit_imm(number, count));
			if (edit) edit(wc);
		});
	}

	void go() {
		sender.run(run, [this](bool silent) { return look(silent); }, sent);
	}
	std::string failure() {
		return failure_of([this] { go(); });
	}

	std::uint64_t word = 0;
	ScriptedSenderOfMany end;
	Run run;
	Sent sent;
	FanInSenderOn<ScriptedSenderOfMany> sender{end};
};

const std::vector<Cell> sender_cells{sender_cell(Mode::rc), sender_cell(Mode::rc, WindowMode::credit),
	sender_cell(Mode::ud), sender_cell(Mode::ud, WindowMode::credit)};

TEST(FanInSender, SendsItsShareInTurnWithEveryByte) {
	for (const Cell& cell : sender_cells)
		for (const std::uint64_t seed : {0u, 0x5eedu}) {
			ScriptedSender scripted(cell, 100, seed);
			scripted.go();
			EXPECT_EQ(scripted.sent.posted, 100u);
			EXPECT_EQ(scripted.sent.completed, 100u);
			EXPECT_EQ(scripted.sent.consumed, scripted.has_credits() ? 100u : 0u);
			EXPECT_EQ(scripted.sent.latency_ns.count(), 1u);
			EXPECT_GT(scripted.sent.took_ns, 0u);
			ASSERT_EQ(scripted.end.all_sends.size(), 100u);
			for (std::uint64_t i = 0; i < 100; ++i) {
				const auto& sent = scripted.end.all_sends[i];
				EXPECT_EQ(sent.queue_pair, i % 3);
				EXPECT_TRUE(Pattern(seed).agrees(sent.bytes.data(), 64, make_stamp(3, i * 4 + 1))) << i;
				const std::uint32_t to = cell.mode == Mode::ud ? sent.request.wr.ud.remote_qpn : 0;
				EXPECT_EQ(to, cell.mode == Mode::ud ? ScriptedSenderOfMany::first_remote_qpn + i % 3 : 0);
			}
		}
}

TEST(FanInSender, KeepsTheWindowsOfSenderAndQueuePair) {
	ScriptedSender scripted(sender_cell(Mode::rc));
	std::size_t most = 0;
	std::uint32_t most_of_one = 0;
	scripted.end.otherwise = [&] {
		most = std::max(most, scripted.end.sends.size());
		std::map<std::uint32_t, std::uint32_t> of_one;
		for (const auto& each : scripted.end.sends) most_of_one = std::max(most_of_one, ++of_one[each.queue_pair]);
		if (!scripted.end.sends.empty()) scripted.end.complete();
	};
	scripted.go();
	EXPECT_EQ(most, 4u);         // 16 of 4 senders
	EXPECT_EQ(most_of_one, 2u);  // 16 of 12 queue pairs
}

TEST(FanInSender, QueuePairsMayCompleteInAnyOrderAmongEachOther) {
	ScriptedSender scripted(sender_cell(Mode::rc));
	scripted.end.otherwise = [&] {
		// The last queue pair's first request, then the others'.
		for (std::uint32_t qp = 3; qp-- > 0;)
			for (std::size_t i = 0; i < scripted.end.sends.size(); ++i)
				if (scripted.end.sends[i].queue_pair == qp) {
					scripted.end.complete(i);
					break;
				}
	};
	EXPECT_EQ(scripted.failure(), "");
	EXPECT_EQ(scripted.sent.completed, 100u);
}

TEST(FanInSender, ACompletionThatLiesEndsTheRunWithASentence) {
	const std::pair<Script::Edit, const char*> lies[] = {
		{[](ibv_wc& wc) { wc.wr_id = 1u << 20 | 1; }, "send: a completion of the device has qp_num 256 instead of 257"},
		{[](ibv_wc& wc) { wc.wr_id = 3u << 20; }, "send: a completion of the device has wr_id 3145728 instead of 0"},
		{[](ibv_wc& wc) { wc.wr_id = 3; }, "send: a completion of the device has wr_id 3 instead of 0"},
		{[](ibv_wc& wc) { wc.wr_id = UINT64_MAX; },
			"send: a completion of the device has wr_id 18446744073709551615 instead of 0"},
		{[](ibv_wc& wc) { wc.opcode = IBV_WC_FETCH_ADD; },
			"send: a completion of the device has opcode 4 instead of 0"},
		{[](ibv_wc& wc) { wc.qp_num = 7; }, "send: a completion of the device has qp_num 7 instead of 256"},
		{[](ibv_wc& wc) { wc.status = IBV_WC_RETRY_EXC_ERR; }, "send: transport retry counter exceeded"},
	};
	for (const Cell& cell : sender_cells)
		for (const auto& [lie, sentence] : lies) {
			ScriptedSender scripted(cell);
			scripted.end.steps.push_back([&, lie] { scripted.end.complete(0, lie); });
			EXPECT_EQ(scripted.failure(), sentence);
			EXPECT_EQ(scripted.sent.completed, 0u);
		}
}

TEST(FanInSender, ACompletionThatComesTwiceOrTooEarlyEndsTheRun) {
	ScriptedSender twice(sender_cell(Mode::rc));
	twice.end.steps.push_back([&] {
		twice.end.complete();
		twice.end.completions.push_back(twice.end.completions.front());
	});
	EXPECT_EQ(twice.failure(), "send: a completion of the device has wr_id 0 instead of 3145728");
	EXPECT_EQ(twice.sent.completed, 1u);

	ScriptedSender early(sender_cell(Mode::rc), 1000);
	early.end.steps.push_back([&] {
		early.end.complete_all();
		ibv_wc next = early.end.completions.back();
		next.wr_id += std::uint64_t{3} << 20;
		early.end.completions.push_back(next);
	});
	EXPECT_EQ(early.failure(), "send: request 6 completed, but only 4 have been posted");
	EXPECT_EQ(early.sent.completed, 4u);
}

TEST(FanInSender, ACompletionThatNeverComesEndsTheRun) {
	for (const Cell& cell : sender_cells) {
		ScriptedSender scripted(cell);
		scripted.end.poll_ns = 100'000;
		scripted.end.otherwise = [] {};
		EXPECT_EQ(scripted.failure(), "no progress for 10 s");
		EXPECT_EQ(scripted.sent.completed, 0u);
	}
}

TEST(FanInSender, CreditsThatCannotBeTrueAreIgnored) {
	for (const Mode mode : {Mode::rc, Mode::ud}) {
		ScriptedSender scripted(sender_cell(mode, WindowMode::credit));
		scripted.end.poll_ns = 100'000;
		scripted.idle_receiver = false;
		scripted.end.otherwise = [] {};
		scripted.end.steps.push_back([&] { scripted.end.complete_all(); });
		scripted.end.steps.push_back([&] { scripted.give_credit(5); });     // 4 are posted
		scripted.end.steps.push_back([&] { scripted.give_credit(4, 4); });  // another run's
		scripted.end.steps.push_back([&] { scripted.give_credit(3); });
		scripted.end.steps.push_back([&] { scripted.give_credit(2); });  // late
		EXPECT_EQ(scripted.failure(), "no progress for 10 s");
		EXPECT_EQ(scripted.sent.consumed, 3u);
		EXPECT_EQ(scripted.sent.posted, 7u);
	}
}

TEST(FanInSender, ALyingCompletionOfACreditEndsTheRun) {
	ScriptedSender scripted(sender_cell(Mode::ud, WindowMode::credit));
	scripted.end.steps.push_back(
		[&] { scripted.give_credit(1, 3, [](ibv_wc& wc) { wc.wr_id = fan_in_receive_mark | 60'000; }); });
	EXPECT_EQ(scripted.failure(),
		"receive of a credit: a completion of the device has wr_id 9223372036854835808 instead of "
		"9223372036854775808");
	ScriptedSender without_number(sender_cell(Mode::ud, WindowMode::credit), 4);
	without_number.end.steps.push_back([&] { without_number.end.complete_all(); });
	without_number.end.steps.push_back([&] { without_number.give_credit(4, 3, [](ibv_wc& wc) { wc.wc_flags = 0; }); });
	without_number.end.otherwise = [&] {
		EXPECT_EQ(without_number.sent.consumed, 0u);
		without_number.answer();
	};
	EXPECT_EQ(without_number.failure(), "");
}

TEST(FanInSender, MissingUdCreditsEndTheRunOnlyWhenTheReceiverIsIdle) {
	for (const bool idle : {true, false}) {
		ScriptedSender scripted(sender_cell(Mode::ud, WindowMode::credit));
		scripted.end.poll_ns = 10'000;
		scripted.idle_receiver = idle;
		scripted.end.otherwise = [&] { scripted.end.complete_all(); };
		EXPECT_EQ(scripted.failure(), idle ? "" : "no progress for 10 s");
		EXPECT_EQ(scripted.sent.posted, 4u);
		EXPECT_EQ(scripted.sent.consumed, 0u);
		EXPECT_GT(scripted.silences, 0);
	}
}

TEST(FanInSender, AClockThatJumpsIsNoStandstillForwardsAndAFailureBackwards) {
	ScriptedSender forwards(sender_cell(Mode::rc), 20);
	forwards.end.otherwise = [&, polls = 0]() mutable {
		if (++polls == 3 * 4096) forwards.end.time += 3'600'000'000'000;
		if (polls > 4 * 4096) forwards.answer();
	};
	EXPECT_EQ(forwards.failure(), "");
	EXPECT_EQ(forwards.sent.completed, 20u);

	ScriptedSender backwards(sender_cell(Mode::rc), 1000);
	for (int i = 0; i < 20; ++i) backwards.end.steps.push_back([&] { backwards.answer(); });
	backwards.end.steps.push_back([&] { backwards.end.time -= 500'000; });
	EXPECT_EQ(backwards.failure().substr(0, 28), "the clock went backwards by ");
}

TEST(FanInSender, ASecondRunBeginsAnew) {
	for (const Cell& cell : sender_cells) {
		ScriptedSender scripted(cell, 7);  // not a multiple of three queue pairs
		EXPECT_EQ(scripted.failure(), "");
		scripted.run.number = 4;
		scripted.end.all_sends.clear();
		scripted.end.otherwise = [&] {
			if (scripted.has_credits()) scripted.give_credit(scripted.end.all_sends.size(), 4);
			scripted.end.complete_all();
		};
		EXPECT_EQ(scripted.failure(), "");
		EXPECT_EQ(scripted.sent.completed, 7u);
		EXPECT_EQ(scripted.end.all_sends.front().queue_pair, 0u);
	}
}

}  // namespace
}  // namespace verbena::rcud
