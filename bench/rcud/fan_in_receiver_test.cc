// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>

#include "bench/rcud/fan_in_receiver_loop.h"
#include "bench/rcud/scripted_fan_in.h"

namespace verbena::rcud {

template class FanInReceiverOn<ScriptedReceiverOfMany>;

namespace {

constexpr std::uint64_t seed = 0x5eed;

Cell receiver_cell(Mode mode, WindowMode window_mode = WindowMode::local) {
	return {.mode = mode, .window_mode = window_mode, .msg = 64, .window = 16, .qps = 6, .senders = 2};
}

// The receiver of two senders with three queue pairs each, and the far ends' part of the script.
struct ScriptedReceiver {
	explicit ScriptedReceiver(const Cell& cell, std::uint64_t total = 60, std::uint64_t seed_ = 0)
		: end(cell, fan_in_shape_of(cell, {}, {}).value()), run{.number = 3, .total = total, .seed = seed_} {
		receiver.post_receives();
		end.otherwise = [this] { end.complete_all(); };
	}

	std::vector<std::byte> message(std::uint64_t sequence) const {
		std::vector<std::byte> bytes(end.cell.msg);
		Pattern(run.seed).write(bytes.data(), bytes.size(), make_stamp(run.number, sequence));
		return bytes;
	}
	// These bytes arrive from the cell's queue pair `qp`.
	void deliver(const std::vector<std::byte>& bytes, std::uint32_t qp, const Script::Edit& edit, std::size_t at = 0) {
		end.arrive(
			bytes, end.grh_bytes(),
			[&](ibv_wc& wc) {
				if (end.is_ud()) wc.src_qp = ScriptedReceiverOfMany::first_remote_qpn + qp;
				else wc.qp_num = ScriptedReceiverOfMany::first_qpn + qp;
				if (edit) edit(wc);
			},
			at);
	}
	void send(std::uint64_t sequence, const Script::Edit& edit = {}) {
		end.steps.push_back([this, sequence, edit] { deliver(message(sequence), qp_of(sequence), edit); });
	}
	void send_damaged(std::uint64_t sequence, std::size_t byte) {
		end.steps.push_back([this, sequence, byte] {
			auto bytes = message(sequence);
			bytes[byte] ^= std::byte{0x10};
			deliver(bytes, qp_of(sequence), {});
		});
	}
	void send_all() {
		for (std::uint64_t i = 0; i < run.total; ++i) send(i);
	}
	std::uint32_t qp_of(std::uint64_t sequence) const { return static_cast<std::uint32_t>(sequence % end.cell.qps); }

	Delivery go() { return receiver.run(run, until_the_steps_end(end)); }
	std::string failure() {
		return failure_of([this] { go(); });
	}
	// The last credit for a sender, in messages.
	std::uint64_t last_credit(std::uint32_t sender) const {
		std::uint64_t count = 0;
		for (const auto& sent : end.all_sends) {
			if (end.is_ud() ? sent.request.wr.ud.remote_qpn != ScriptedReceiverOfMany::first_remote_qpn + sender
							: sent.queue_pair != sender)
				continue;
			if (end.is_ud()) {
				count = credit_count_of(ntohl(sent.request.imm_data), run.number, 0);
				continue;
			}
			EXPECT_EQ(sent.request.wr.rdma.remote_addr, end.far.credit_words + sender * 64);
			std::uint64_t word;
			std::memcpy(&word, sent.bytes.data(), sizeof word);
			count = sequence_of(word);
		}
		return count;
	}

	ScriptedReceiverOfMany end;
	Run run;
	FanInReceiverOn<ScriptedReceiverOfMany> receiver{end, 0};
};

const std::vector<Cell> receiver_cells{receiver_cell(Mode::rc), receiver_cell(Mode::rc, WindowMode::credit),
	receiver_cell(Mode::ud), receiver_cell(Mode::ud, WindowMode::credit)};

TEST(FanInReceiver, CountsEveryMessageThatArrivesAsItWasSent) {
	for (const Cell& cell : receiver_cells)
		for (const std::uint64_t with_seed : {std::uint64_t{0}, seed}) {
			ScriptedReceiver scripted(cell, 1000, with_seed);
			scripted.send_all();
			const Delivery delivery = scripted.go();
			EXPECT_EQ(delivery.delivered, 1000u);
			EXPECT_EQ(delivery.corrupt + delivery.stale + delivery.duplicated + delivery.reordered, 0u);
			EXPECT_EQ(delivery.qps_used, 6u);
			EXPECT_EQ(delivery.counted, 999u);
			if (cell.window_mode == WindowMode::local) continue;
			EXPECT_EQ(scripted.last_credit(0), 500u);
			EXPECT_EQ(scripted.last_credit(1), 500u);
		}
}

TEST(FanInReceiver, BuffersOfASharedReceiveQueueMayCompleteInAnyOrder) {
	ScriptedReceiver scripted(receiver_cell(Mode::rc));
	for (std::uint64_t i = 0; i < scripted.run.total; ++i)
		scripted.end.steps.push_back([&, i] { scripted.deliver(scripted.message(i), scripted.qp_of(i), {}, i % 7); });
	const Delivery delivery = scripted.go();
	EXPECT_EQ(delivery.delivered, 60u);
	EXPECT_EQ(delivery.corrupt, 0u);
}

TEST(FanInReceiver, ALostMessageEndsTheRunAfterASilenceAndIsNotCounted) {
	for (const Cell& cell : receiver_cells) {
		ScriptedReceiver scripted(cell, 12);
		for (const std::uint64_t sequence : {0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11}) scripted.send(sequence);
		const std::uint64_t before = scripted.end.time;
		EXPECT_EQ(scripted.go().delivered, 11u);
		EXPECT_GT(scripted.end.time - before, silence_ns);
	}
}

TEST(FanInReceiver, OrderIsThatOfOneQueuePair) {
	ScriptedReceiver scripted(receiver_cell(Mode::ud), 18);
	for (const std::uint64_t sequence : {5, 4, 3, 2, 1, 0, 12, 6, 7, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17})
		scripted.send(sequence);
	const Delivery delivery = scripted.go();
	EXPECT_EQ(delivery.delivered, 18u);
	EXPECT_EQ(delivery.reordered, 1u);  // 6 after 12, both of queue pair 0
	EXPECT_EQ(delivery.duplicated, 1u);
}

TEST(FanInReceiver, WithASeedADamagedByteAnywhereIsNoticed) {
	for (const Cell& cell : {receiver_cell(Mode::rc), receiver_cell(Mode::ud)})
		for (const std::uint64_t with_seed : {std::uint64_t{0}, seed})
			for (std::uint32_t at = 0; at < 64; ++at) {
				ScriptedReceiver scripted(cell, 4, with_seed);
				scripted.end.poll_ns = 10'000;
				scripted.send(0), scripted.send_damaged(1, at), scripted.send(2), scripted.send(3);
				SCOPED_TRACE(fmt::format("byte {}", at));
				const Delivery delivery = scripted.go();
				const bool seen = with_seed != 0 || at < 8 || at >= 56;
				EXPECT_EQ(delivery.delivered, seen ? 3u : 4u);
				EXPECT_EQ(delivery.corrupt + delivery.stale, seen ? 1u : 0u);
			}
}

TEST(FanInReceiver, OverRcADamagedMessageIsConsumedSoItsSenderGoesOn) {
	for (const std::size_t byte : {std::size_t{0}, std::size_t{30}}) {
		ScriptedReceiver scripted(receiver_cell(Mode::rc, WindowMode::credit), 60, seed);
		for (std::uint64_t i = 0; i < 59; ++i) scripted.send(i);
		scripted.send_damaged(59, byte);
		EXPECT_EQ(scripted.go().delivered, 59u);
		EXPECT_EQ(scripted.last_credit(1), 30u);
	}
}

TEST(FanInReceiver, AMessageThroughAnotherQueuePairIsNotDelivered) {
	for (const Cell& cell : receiver_cells) {
		ScriptedReceiver scripted(cell, 12);
		for (std::uint64_t i = 0; i < 11; ++i) scripted.send(i);
		scripted.end.steps.push_back([&] { scripted.deliver(scripted.message(11), 4, {}); });
		const Delivery delivery = scripted.go();
		EXPECT_EQ(delivery.delivered, 11u);
		EXPECT_EQ(delivery.corrupt, 1u);
	}
}

TEST(FanInReceiver, AMessageOfAWrongLengthIsNotDelivered) {
	for (const Cell& cell : receiver_cells)
		for (const int change : {-1, 1, -64, -104, 1 << 20}) {
			ScriptedReceiver scripted(cell, 2);
			scripted.end.poll_ns = 10'000;
			scripted.send(0, [=](ibv_wc& wc) { wc.byte_len += static_cast<std::uint32_t>(change); });
			const Delivery delivery = scripted.go();
			EXPECT_EQ(delivery.delivered, 0u);
			EXPECT_EQ(delivery.corrupt, 1u) << change;
		}
}

TEST(FanInReceiver, ACompletionThatLiesEndsTheRunWithASentence) {
	const std::pair<Script::Edit, const char*> lies[] = {
		{[](ibv_wc& wc) { wc.wr_id = 0; },
			"receive: a completion of the device has wr_id 0, and no such receive is posted"},
		{[](ibv_wc& wc) { wc.wr_id = UINT64_MAX; },
			"receive: a completion of the device has wr_id 18446744073709551615, and no such receive is posted"},
		{[](ibv_wc& wc) { wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM; },
			"receive: a completion of the device has opcode 129 instead of 128"},
		{[](ibv_wc& wc) { wc.status = IBV_WC_WR_FLUSH_ERR; }, "receive: Work Request Flushed Error"},
	};
	for (const Cell& cell : receiver_cells)
		for (const auto& [lie, sentence] : lies) {
			ScriptedReceiver scripted(cell);
			scripted.end.steps.push_back([&, lie] {
				// Two messages of one poll: the first one's buffer is not posted again yet.
				scripted.deliver(scripted.message(0), 0, {});
				scripted.deliver(scripted.message(1), 1, lie);
			});
			EXPECT_EQ(scripted.failure(), sentence);
		}
	ScriptedReceiver other_queue_pair(receiver_cell(Mode::ud));
	other_queue_pair.send(0, [](ibv_wc& wc) { wc.qp_num = 1; });
	EXPECT_EQ(other_queue_pair.failure(), "receive: a completion of the device has qp_num 1 instead of 256");
}

TEST(FanInReceiver, CreditCompletionsThatLieEndTheRun) {
	const std::pair<Script::Edit, std::string> lies[] = {
		{[](ibv_wc& wc) { ++wc.wr_id; },
			fmt::format("wr_id {} instead of {}", fan_in_credit_id(0, 17), fan_in_credit_id(0, 16))},
		{[](ibv_wc& wc) { wc.wr_id = fan_in_credit_id(900, 16); },
			fmt::format("wr_id {} instead of {}", fan_in_credit_id(900, 16), fan_in_credit_id(0, 16))},
		{[](ibv_wc& wc) { wc.opcode = IBV_WC_SEND; }, "opcode 0 instead of 1"},
		{[](ibv_wc& wc) { wc.qp_num = 5; }, "qp_num 5 instead of 256"},
	};
	for (const auto& [lie, sentence] : lies) {
		ScriptedReceiver scripted(receiver_cell(Mode::rc, WindowMode::credit), 1000);
		for (std::uint64_t i = 0; i < 200; ++i) scripted.send(i);
		scripted.end.steps.push_back([&, lie] {
			while (scripted.end.completions.empty()) {
				std::size_t of_queue_0 = 0;
				while (scripted.end.sends.at(of_queue_0).queue_pair != 0) ++of_queue_0;
				scripted.end.complete(of_queue_0, lie);
			}
		});
		EXPECT_EQ(scripted.failure(), "credit: a completion of the device has " + sentence);
	}
	ScriptedReceiver early(receiver_cell(Mode::rc, WindowMode::credit));
	early.send(0);
	early.end.steps.push_back([&] {
		ibv_wc wc{};
		wc.wr_id = fan_in_credit_id(1, 16);
		wc.opcode = IBV_WC_RDMA_WRITE;
		wc.qp_num = ScriptedReceiverOfMany::first_qpn + 1;
		early.end.completions.push_back(wc);
	});
	EXPECT_EQ(early.failure(), "credit: request 16 completed, but only 0 have been posted");
}

TEST(FanInReceiver, CreditsThatNeverCompleteEndTheRun) {
	ScriptedReceiver scripted(receiver_cell(Mode::rc, WindowMode::credit), 10'000);
	scripted.send_all();
	scripted.end.poll_ns = 100'000;
	scripted.end.otherwise = [] {};
	EXPECT_EQ(scripted.failure(), "credit: no completion for 10 s");
}

TEST(FanInReceiver, AClockThatGoesBackwardsEndsTheRun) {
	ScriptedReceiver scripted(receiver_cell(Mode::rc));
	scripted.send(0);
	scripted.end.steps.push_back([&] { scripted.end.time -= 500'000; });
	EXPECT_EQ(scripted.failure().substr(0, 28), "the clock went backwards by ");
}

TEST(FanInReceiver, AnAbandonedRunIsAFailure) {
	ScriptedReceiver scripted(receiver_cell(Mode::rc));
	scripted.send(0);
	EXPECT_THROW(scripted.receiver.run(scripted.run, [](bool) { return Watch::abandon; }), Failure);
}

}  // namespace
}  // namespace verbena::rcud
