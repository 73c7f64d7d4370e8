// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/scripted_receiver.h"

namespace verbena::rcud {

template class ReceiverOn<ScriptedEnd>;

namespace {

TEST(Receiver, CountsEveryMessageThatArrivesAsItWasSent) {
	for (const Cell& cell : {rc, ud, with(rc, 1), with(rc, 8), with(ud, 17), with(rc, 64, WindowMode::credit)})
		for (const std::uint64_t with_seed : {std::uint64_t{0}, seed}) {
			Scripted scripted(cell, 1000, with_seed);
			scripted.send_all();
			scripted.end.otherwise = [&] { scripted.end.complete_all(); };
			const Delivery delivery = scripted.go();
			expect_counts(delivery, {.delivered = 1000});
			EXPECT_EQ(delivery.counted, 999u);
			EXPECT_GT(delivery.counted_ns, 0u);
		}
}

TEST(Receiver, ALostMessageEndsTheRunAfterASilenceAndIsNotCounted) {
	for (const Cell& cell : {rc, ud, with(ud, 64, WindowMode::credit)}) {
		Scripted scripted(cell);
		for (const std::uint64_t sequence : {0, 1, 2, 4, 5, 6, 7, 8, 9}) scripted.send(sequence);
		const std::uint64_t before = scripted.end.time;
		expect_counts(scripted.go(), {.delivered = 9});
		EXPECT_GT(scripted.end.time - before, silence_ns);
	}
}

TEST(Receiver, DuplicatesAndLateMessagesAreCountedAsSuch) {
	Scripted scripted(ud);
	for (const std::uint64_t sequence : {0, 1, 1, 4, 3, 2, 0, 5, 6, 7, 8, 9}) scripted.send(sequence);
	expect_counts(scripted.go(), {.delivered = 10, .duplicated = 2, .reordered = 2});
}

TEST(Receiver, WithASeedADamagedByteAnywhereIsNoticed) {
	for (const Cell& base : {rc, ud})
		for (const std::uint32_t msg : {1u, 7u, 16u, 17u, 23u, 24u, 33u, 64u}) {
			if (msg < 16 && base.mode == Mode::ud) continue;
			for (std::uint32_t at = 0; at < msg; ++at) {
				Scripted scripted(with(base, msg), 4, seed);
				scripted.end.poll_ns = 10'000;
				scripted.send(0), scripted.send_damaged(1, at), scripted.send(2), scripted.send(3);
				SCOPED_TRACE(fmt::format("byte {} of {}", at, msg));
				expect_counts(scripted.go(), {.delivered = 3, .corrupt = 1});
			}
		}
	// From 8 to 15 bytes the number has no second copy, so over RC the message is lost.
	for (std::uint32_t at = 0; at < 15; ++at) {
		Scripted scripted(with(rc, 15), 4, seed);
		scripted.send(0), scripted.send_damaged(1, at), scripted.send(2), scripted.send(3);
		EXPECT_EQ(scripted.go().delivered, 3u) << at;
	}
}

TEST(Receiver, WithoutASeedOnlyTheNumbersAreChecked) {
	for (std::uint32_t at = 0; at < 64; ++at) {
		Scripted scripted(rc, 4);
		scripted.send(0), scripted.send_damaged(1, at), scripted.send(2), scripted.send(3);
		const bool in_number = at < 8 || at >= 56;
		SCOPED_TRACE(at);
		expect_counts(scripted.go(), {.delivered = in_number ? 3u : 4u, .corrupt = in_number ? 1u : 0u});
	}
}

TEST(Receiver, OverRcADamagedMessageIsConsumedSoTheSenderGoesOn) {
	Scripted scripted(with(rc, 64, WindowMode::credit), 10, seed);
	for (std::uint64_t i = 0; i < 9; ++i) scripted.send(i);
	scripted.send_damaged(9, 30);
	expect_counts(scripted.go(), {.delivered = 9, .corrupt = 1});
	std::uint64_t credit;
	std::memcpy(&credit, scripted.end.all_sends.back().bytes.data(), sizeof credit);
	EXPECT_EQ(credit, make_stamp(3, 10));
}

TEST(Receiver, AMessageOfAWrongLengthIsNotDelivered) {
	for (const Cell& cell : {rc, ud, with({.mode = Mode::ud_segmented, .window = 4}, 128)})
		for (const int change : {-1, 1, -64, -104, 1 << 20}) {
			Scripted scripted(cell, 2);
			scripted.end.poll_ns = 10'000;
			const auto lie = [&](ibv_wc& completion) { completion.byte_len += static_cast<std::uint32_t>(change); };
			scripted.send(0, lie);
			const Delivery delivery = scripted.go();
			EXPECT_EQ(delivery.delivered, 0u);
			EXPECT_EQ(delivery.corrupt, 1u) << change;
		}
}

TEST(Receiver, ACompletionThatLiesEndsTheRunWithASentence) {
	const std::pair<ScriptedEnd::Edit, const char*> lies[] = {
		{[](ibv_wc& wc) { wc.wr_id = 0; }, "receive: a completion of the device has wr_id 0 instead of 1"},
		{[](ibv_wc& wc) { wc.wr_id = 7; }, "receive: a completion of the device has wr_id 7 instead of 1"},
		{[](ibv_wc& wc) { wc.wr_id = UINT64_MAX; },
			"receive: a completion of the device has wr_id 18446744073709551615 instead of 1"},
		{[](ibv_wc& wc) { wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM; },
			"receive: a completion of the device has opcode 129 instead of 128"},
		{[](ibv_wc& wc) { wc.opcode = IBV_WC_SEND; }, "credit: a completion of the device has opcode 0 instead of 1"},
		{[](ibv_wc& wc) { wc.qp_num = 1; }, "receive: a completion of the device has qp_num 1 instead of 18193"},
		{[](ibv_wc& wc) { wc.status = IBV_WC_WR_FLUSH_ERR; }, "receive: Work Request Flushed Error"},
	};
	for (const auto& [lie, sentence] : lies) {
		Scripted scripted(rc);
		scripted.send(0);
		scripted.send(1, lie);
		EXPECT_EQ(scripted.failure(), sentence);
	}
}

TEST(Receiver, ACompletionThatComesTwiceEndsTheRun) {
	Scripted scripted(rc);
	scripted.send(0);
	scripted.end.steps.push_back([&] {
		scripted.end.arrive(scripted.message(1));
		scripted.end.completions.push_back(scripted.end.completions.front());
	});
	EXPECT_EQ(scripted.failure(), "receive: a completion of the device has wr_id 1 instead of 2");
}

TEST(Receiver, ASuccessThatBroughtNoBytesDeliversNothing) {
	Scripted scripted(rc, 2);
	const auto memory = [&] {
		return std::vector<std::byte>(scripted.end.receive_memory.front(), scripted.end.receive_memory.front() + 64);
	};
	scripted.send(0);
	scripted.end.steps.push_back([&] { scripted.end.arrive(memory()); });
	expect_counts(scripted.go(), {.delivered = 1, .stale = 1});

	// Later the buffer still has an earlier message.
	Scripted later(rc, 200);
	const auto count = later.end.receive_count;
	for (std::uint64_t i = 0; i < count; ++i) later.send(i);
	later.end.steps.push_back([&] {
		later.end.arrive(
			std::vector<std::byte>(later.end.receive_memory.front(), later.end.receive_memory.front() + 64));
	});
	expect_counts(later.go(), {.delivered = count, .duplicated = 1});
}

TEST(Receiver, MessagesOfAnotherRunOrBeyondTheEndOfTheRunAreNotDelivered) {
	for (const std::uint64_t with_seed : {std::uint64_t{0}, seed}) {
		Scripted scripted(ud, 2, with_seed);
		scripted.end.steps.push_back([&] { scripted.end.arrive(scripted.message(0, 2)); });
		scripted.send(2);
		scripted.send((std::uint64_t{1} << 48) - 1);
		scripted.send(0), scripted.send(1);
		expect_counts(scripted.go(), {.delivered = 2, .corrupt = 2, .stale = 1});
	}
	// A run without a seed came before.
	Scripted scripted(ud, 2, seed);
	scripted.end.steps.push_back([&] {
		std::vector<std::byte> bytes(64);
		write_stamps(bytes.data(), 64, make_stamp(2, 0));
		scripted.end.arrive(bytes);
	});
	scripted.send(0), scripted.send(1);
	expect_counts(scripted.go(), {.delivered = 2, .stale = 1});
}

TEST(Receiver, CreditCompletionsThatLieEndTheRun) {
	const std::pair<ScriptedEnd::Edit, const char*> lies[] = {
		{[](ibv_wc& wc) { wc.wr_id = 17; }, "credit: a completion of the device has wr_id 17 instead of 16"},
		{[](ibv_wc& wc) { wc.opcode = IBV_WC_SEND; }, "credit: a completion of the device has opcode 0 instead of 1"},
		{[](ibv_wc& wc) { wc.qp_num = 5; }, "credit: a completion of the device has qp_num 5 instead of 18193"},
	};
	for (const auto& [lie, sentence] : lies) {
		Scripted scripted(with(rc, 64, WindowMode::credit), 100);
		for (std::uint64_t i = 0; i < 40; ++i) scripted.send(i);
		scripted.end.steps.push_back([&, lie] {
			while (scripted.end.completions.empty()) scripted.end.complete_one(lie);
		});
		EXPECT_EQ(scripted.failure(), sentence);
	}
	Scripted early(with(rc, 64, WindowMode::credit), 100);
	early.send(0);
	early.end.steps.push_back([&] {
		ibv_wc wc{};
		wc.wr_id = 16;
		wc.opcode = IBV_WC_RDMA_WRITE;
		wc.qp_num = ScriptedEnd::number;
		early.end.completions.push_back(wc);
	});
	EXPECT_EQ(early.failure(), "credit: request 16 completed, but only 0 have been posted");
}

TEST(Receiver, CreditsThatNeverCompleteEndTheRun) {
	Scripted scripted(with(rc, 64, WindowMode::credit), 1000);
	scripted.send_all();
	scripted.end.poll_ns = 100'000;
	EXPECT_EQ(scripted.failure(), "credit: no completion for 10 s");
}

TEST(Receiver, AClockThatGoesBackwardsEndsTheRun) {
	Scripted scripted(rc);
	scripted.send(0);
	scripted.end.steps.push_back([&] { scripted.end.time -= 500'000; });
	EXPECT_EQ(scripted.failure().substr(0, 30), "the clock went backwards by 49");
}

TEST(Receiver, AClockThatJumpsForwardsIsNoSilence) {
	Scripted scripted(ud);
	for (std::uint64_t i = 0; i < 9; ++i) scripted.send(i);
	// The sender has finished, an hour passes between two readings, and the last message comes.
	scripted.end.at_reading = [&, readings = 0]() mutable {
		if (scripted.end.steps.empty() && ++readings == 3) {
			scripted.end.time += 3'600'000'000'000;
			scripted.send(9);
		}
	};
	expect_counts(scripted.go(), {.delivered = 10});
}

TEST(Receiver, AnAbandonedRunIsAFailure) {
	Scripted scripted(rc);
	scripted.send(0);
	const auto watcher = [](bool) { return Watch::abandon; };
	EXPECT_THROW(scripted.receiver.run(scripted.run, watcher), Failure);
}

}  // namespace
}  // namespace verbena::rcud
