// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "bench/rcud/scripted_end.h"
#include "bench/rcud/sender_loop.h"

namespace verbena::rcud {

template class SenderOn<ScriptedEnd>;

namespace {

constexpr std::uint64_t pattern_seed = 0x5eed;

Cell cell_of(Mode mode, Op op = Op::send, WindowMode window_mode = WindowMode::local) {
	return {.mode = mode, .op = op, .window_mode = window_mode, .msg = 64, .window = 8};
}

// A sender, and a far end that is honest until a test changes it.
struct Scripted : SenderWatcher {
	explicit Scripted(
		const Cell& cell, std::uint64_t total = 100, std::uint64_t seed_ = 0, const Settings& settings = {})
		: end(cell, shape_of(cell, settings, {.mtu = 48}).value(), Side::sender),
		  run{.number = 3, .total = total, .seed = seed_} {
		sender.post_receives();
		end.otherwise = [this] { answer(); };
	}

	bool has_credits() const {
		return end.cell.op == Op::write || (end.cell.op == Op::send && end.cell.window_mode == WindowMode::credit);
	}
	// Everything that was posted is complete and consumed.
	void answer() {
		for (const auto& sent : end.sends)
			if (end.cell.op == Op::read) read(sent);
		if (!end.all_sends.empty() && has_credits()) give_credit(end.all_sends.back().wr_id());
		end.complete_all();
	}
	// The target's ring holds the index of each slot.
	void read(const ScriptedEnd::Posted& request) const {
		const std::uint64_t slot = (request.wr_id() - 1) % end.shape.ring_slots;
		Pattern(run.seed).write(request.local, end.cell.msg, make_stamp(run.number, slot));
	}
	void give_credit(std::uint64_t count, std::uint16_t number = 3, const ScriptedEnd::Edit& edit = {}) {
		if (!end.is_ud()) {
			end.words[0] = make_stamp(number, count);
			return;
		}
		end.arrive({}, [&](ibv_wc& wc) {
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

	ScriptedEnd end;
	Run run;
	Sent sent;
	SenderOn<ScriptedEnd> sender{end};
};

const std::vector<Cell> all_cells{cell_of(Mode::rc), cell_of(Mode::rc, Op::send, WindowMode::credit), cell_of(Mode::ud),
	cell_of(Mode::ud, Op::send, WindowMode::credit), cell_of(Mode::ud_segmented), cell_of(Mode::rc, Op::write),
	cell_of(Mode::rc, Op::write, WindowMode::credit), cell_of(Mode::rc, Op::read)};

TEST(Sender, SendsEveryMessageOnceWithItsContents) {
	for (const Cell& cell : all_cells)
		for (const std::uint64_t with_seed : {std::uint64_t{0}, pattern_seed}) {
			Scripted scripted(cell, 100, with_seed, {.post_list = 2, .signal_every = 3});
			scripted.go();
			EXPECT_EQ(scripted.sent.posted, 100u);
			EXPECT_EQ(scripted.sent.completed, 100u);
			EXPECT_EQ(scripted.sent.consumed, scripted.has_credits() ? 100u : 0u);
			EXPECT_EQ(scripted.sent.read.delivered, cell.op == Op::read ? 100u : 0u);
			EXPECT_EQ(scripted.sent.latency_ns.count(), 1u);
			EXPECT_GT(scripted.sent.took_ns, 0u);
			const auto& all = scripted.end.all_sends;
			ASSERT_EQ(all.size(), 100u * scripted.end.shape.fragments);
			if (cell.op == Op::read || cell.mode == Mode::ud_segmented) continue;
			for (std::uint64_t i = 0; i < 100; ++i)
				EXPECT_TRUE(Pattern(with_seed).agrees(all[i].bytes.data(), 64, make_stamp(3, i))) << i;
		}
}

TEST(Sender, NeverHasMoreThanTheWindowUnderWay) {
	Scripted scripted(cell_of(Mode::rc));
	std::size_t most = 0;
	scripted.end.otherwise = [&] {
		most = std::max(most, scripted.end.sends.size());
		if (!scripted.end.sends.empty()) scripted.end.complete_one();
	};
	scripted.go();
	EXPECT_EQ(most, 8u);
}

TEST(Sender, ACompletionThatLiesEndsTheRunWithASentence) {
	const std::pair<ScriptedEnd::Edit, const char*> lies[] = {
		{[](ibv_wc& wc) { wc.wr_id = 2; }, "a completion of the device has wr_id 2 instead of 1"},
		{[](ibv_wc& wc) { wc.wr_id = 0; }, "a completion of the device has wr_id 0 instead of 1"},
		{[](ibv_wc& wc) { wc.wr_id = UINT64_MAX; },
			"a completion of the device has wr_id 18446744073709551615 instead of 1"},
		{[](ibv_wc& wc) { wc.opcode = IBV_WC_FETCH_ADD; }, "a completion of the device has opcode 4 instead of "},
		{[](ibv_wc& wc) { wc.qp_num = 7; }, "a completion of the device has qp_num 7 instead of 18193"},
		{[](ibv_wc& wc) { wc.status = IBV_WC_RETRY_EXC_ERR; }, "transport retry counter exceeded"},
	};
	for (const Cell& cell : all_cells)
		for (const auto& [lie, sentence] : lies) {
			Scripted scripted(cell);
			scripted.end.steps.push_back([&, lie] {
				while (scripted.end.completions.empty()) scripted.end.complete_one(lie);
			});
			EXPECT_NE(scripted.failure().find(sentence), std::string::npos) << scripted.sent.completed;
			EXPECT_EQ(scripted.sent.completed, 0u);
			EXPECT_EQ(scripted.sent.read.delivered, 0u);
		}
}

TEST(Sender, ACompletionThatComesTwiceOrTooEarlyEndsTheRun) {
	Scripted twice(cell_of(Mode::rc));
	twice.end.steps.push_back([&] {
		twice.end.complete_one();
		twice.end.completions.push_back(twice.end.completions.front());
	});
	EXPECT_EQ(twice.failure(), "send: a completion of the device has wr_id 1 instead of 2");
	EXPECT_EQ(twice.sent.completed, 1u);

	Scripted early(cell_of(Mode::rc), 1000);
	early.end.steps.push_back([&] {
		early.end.complete_all();
		ibv_wc next = early.end.completions.back();
		++next.wr_id;
		early.end.completions.push_back(next);
	});
	EXPECT_EQ(early.failure(), "send: request 9 completed, but only 8 have been posted");
	EXPECT_EQ(early.sent.completed, 8u);
}

TEST(Sender, ACompletionThatNeverComesEndsTheRun) {
	for (const Cell& cell : all_cells) {
		Scripted scripted(cell);
		scripted.end.poll_ns = 100'000;
		scripted.end.otherwise = [] {};
		EXPECT_EQ(scripted.failure(), "no progress for 10 s");
		EXPECT_EQ(scripted.sent.completed, 0u);
	}
}

TEST(Sender, ReadsThatBroughtOtherBytesAreDamaged) {
	for (const std::uint64_t with_seed : {std::uint64_t{0}, pattern_seed})
		for (std::size_t at = 0; at <= 64; ++at) {
			Scripted scripted(cell_of(Mode::rc, Op::read), 20, with_seed);
			// The third read differs in one byte, or brings nothing.
			scripted.end.otherwise = [&] {
				for (const auto& sent : scripted.end.sends) {
					if (sent.wr_id() == 3 && at == 64) continue;
					scripted.read(sent);
					if (sent.wr_id() == 3) sent.local[at] ^= std::byte{1};
				}
				scripted.end.complete_all();
			};
			EXPECT_EQ(scripted.failure(), "");
			const bool seen = with_seed != 0 || at < 8 || at >= 56;
			EXPECT_EQ(scripted.sent.read.corrupt, seen ? 1u : 0u) << at;
			EXPECT_EQ(scripted.sent.read.delivered, seen ? 19u : 20u) << at;
			EXPECT_LE(scripted.sent.read.counted, scripted.sent.read.delivered);
		}
}

TEST(Sender, AReadThatMovedAnotherNumberOfBytesEndsTheRun) {
	Scripted scripted(cell_of(Mode::rc, Op::read));
	scripted.end.steps.push_back([&] {
		scripted.read(scripted.end.sends.front());
		scripted.end.complete_one([](ibv_wc& wc) { wc.byte_len = 63; });
	});
	EXPECT_EQ(scripted.failure(), "read: a completion of the device has byte_len 63 instead of 64");
	EXPECT_EQ(scripted.sent.read.delivered, 0u);
}

TEST(Sender, CreditsThatCannotBeTrueAreIgnored) {
	for (const Mode mode : {Mode::rc, Mode::ud}) {
		Scripted scripted(cell_of(mode, Op::send, WindowMode::credit));
		scripted.end.poll_ns = 100'000;
		scripted.idle_receiver = false;
		scripted.end.otherwise = [] {};
		scripted.end.steps.push_back([&] { scripted.end.complete_all(); });
		scripted.end.steps.push_back([&] { scripted.give_credit(9); });     // 8 are posted
		scripted.end.steps.push_back([&] { scripted.give_credit(8, 4); });  // another run's
		scripted.end.steps.push_back([&] { scripted.give_credit(3); });
		scripted.end.steps.push_back([&] { scripted.give_credit(2); });  // late
		scripted.end.steps.push_back([&] { scripted.give_credit(3); });  // again
		EXPECT_EQ(scripted.failure(), "no progress for 10 s");
		EXPECT_EQ(scripted.sent.consumed, 3u);
		EXPECT_EQ(scripted.sent.posted, 11u);
	}
}

TEST(Sender, ADatagramWithoutANumberIsNoCredit) {
	Scripted scripted(cell_of(Mode::ud, Op::send, WindowMode::credit), 8);
	scripted.end.steps.push_back([&] { scripted.end.complete_all(); });
	scripted.end.steps.push_back([&] { scripted.give_credit(8, 3, [](ibv_wc& wc) { wc.wc_flags = 0; }); });
	scripted.end.otherwise = [&] { EXPECT_EQ(scripted.sent.consumed, 0u), scripted.answer(); };
	EXPECT_EQ(scripted.failure(), "");
}

TEST(Sender, ALyingCompletionOfACreditEndsTheRun) {
	Scripted scripted(cell_of(Mode::ud, Op::send, WindowMode::credit));
	scripted.end.steps.push_back([&] { scripted.give_credit(1, 3, [](ibv_wc& wc) { wc.wr_id = 60'000; }); });
	EXPECT_EQ(scripted.failure(), "receive of a credit: a completion of the device has wr_id 60000 instead of 0");
	Scripted rc(cell_of(Mode::rc, Op::send, WindowMode::credit));
	rc.end.steps.push_back([&] { rc.end.complete_one([](ibv_wc& wc) { wc.opcode = IBV_WC_RECV; }); });
	EXPECT_EQ(rc.failure(), "send: a completion of the device has opcode 128 instead of 0");
}

TEST(Sender, MissingUdCreditsEndTheRunOnlyWhenTheReceiverIsIdle) {
	for (const bool idle : {true, false}) {
		Scripted scripted(cell_of(Mode::ud, Op::send, WindowMode::credit));
		scripted.end.poll_ns = 10'000;
		scripted.idle_receiver = idle;
		scripted.end.otherwise = [&] { scripted.end.complete_all(); };
		EXPECT_EQ(scripted.failure(), idle ? "" : "no progress for 10 s");
		EXPECT_EQ(scripted.sent.posted, 8u);
		EXPECT_EQ(scripted.sent.consumed, 0u);
		EXPECT_GT(scripted.silences, 0);
	}
}

TEST(Sender, AClockThatGoesBackwardsEndsTheRun) {
	Scripted scripted(cell_of(Mode::rc), 1000);
	for (int i = 0; i < 20; ++i) scripted.end.steps.push_back([&] { scripted.answer(); });
	scripted.end.steps.push_back([&] { scripted.end.time -= 500'000; });
	EXPECT_EQ(scripted.failure().substr(0, 28), "the clock went backwards by ");
	EXPECT_EQ(scripted.sent.took_ns, 0u);
}

TEST(Sender, AClockThatJumpsForwardsIsNoStandstill) {
	for (const Cell& cell : all_cells) {
		Scripted scripted(cell, 20);
		// An hour passes between two readings while the sender waits.
		scripted.end.otherwise = [&, polls = 0]() mutable {
			if (++polls == 3 * 4096) scripted.end.time += 3'600'000'000'000;
			if (polls > 4 * 4096) scripted.answer();
		};
		EXPECT_EQ(scripted.failure(), "");
		EXPECT_EQ(scripted.sent.completed, 20u);
	}
}

TEST(Sender, AnAbandonedRunIsAFailure) {
	Scripted scripted(cell_of(Mode::rc));
	scripted.end.otherwise = [] {};
	scripted.asks = asks_max;
	EXPECT_EQ(scripted.failure(), bench::peer_gave_up);
}

}  // namespace
}  // namespace verbena::rcud
