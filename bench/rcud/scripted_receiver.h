// SPDX-License-Identifier: Apache-2.0
// A receiver with a scripted far end, for tests.
//
// Lifetime: test code only.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "bench/rcud/receiver_loop.h"
#include "bench/rcud/scripted_end.h"

namespace verbena::rcud {

extern template class ReceiverOn<ScriptedEnd>;

inline constexpr std::uint64_t seed = 0x5eed;
inline const Cell rc{.mode = Mode::rc, .msg = 64, .window = 8};
inline const Cell ud{.mode = Mode::ud, .msg = 64, .window = 8};

inline Cell with(Cell cell, std::uint32_t msg, WindowMode window_mode = WindowMode::local, Op op = Op::send) {
	cell.msg = msg;
	cell.window_mode = window_mode;
	cell.op = op;
	return cell;
}

// A receiver, and the far end's part of the script.
struct Scripted {
	explicit Scripted(const Cell& cell, std::uint64_t total = 10, std::uint64_t seed_ = 0)
		: end(cell, shape_of(cell, {}, {.mtu = 64}).value(), Side::receiver),
		  run{.number = 3, .total = total, .seed = seed_} {
		receiver.post_receives();
		receiver.prepare(run);
	}

	std::vector<std::byte> message(std::uint64_t sequence, std::uint16_t number = 3) const {
		std::vector<std::byte> bytes(end.cell.msg);
		Pattern(run.seed).write(bytes.data(), bytes.size(), make_stamp(number, sequence));
		return bytes;
	}
	void send(std::uint64_t sequence, const ScriptedEnd::Edit& edit = {}) {
		end.steps.push_back([this, sequence, edit] { end.arrive(message(sequence), edit); });
	}
	void send_all() {
		for (std::uint64_t i = 0; i < run.total; ++i) send(i);
	}
	void send_damaged(std::uint64_t sequence, std::size_t at) {
		end.steps.push_back([this, sequence, at] {
			auto bytes = message(sequence);
			bytes[at] ^= std::byte{0x10};
			end.arrive(bytes);
		});
	}
	// An RDMA WRITE of message `sequence`, changed by `edit`.
	void write(std::uint64_t sequence, const std::function<void(std::byte*)>& edit = [](std::byte*) {}) {
		end.steps.push_back([this, sequence, edit] {
			std::byte* slot = end.slot_at(static_cast<std::uint32_t>(sequence % end.slot_count));
			const auto bytes = message(sequence);
			std::memcpy(slot, bytes.data(), bytes.size());
			edit(slot);
		});
	}

	Delivery go() { return receiver.run(run, until_the_steps_end(end)); }
	std::string failure() {
		return failure_of([this] { go(); });
	}

	ScriptedEnd end;
	Run run;
	ReceiverOn<ScriptedEnd> receiver{end, 0, false};
};

inline void expect_counts(const Delivery& delivery, const Delivery& expected) {
	EXPECT_EQ(delivery.delivered, expected.delivered);
	EXPECT_EQ(delivery.duplicated, expected.duplicated);
	EXPECT_EQ(delivery.reordered, expected.reordered);
	EXPECT_EQ(delivery.corrupt, expected.corrupt);
	EXPECT_EQ(delivery.stale, expected.stale);
	EXPECT_LE(delivery.counted, delivery.delivered);
}

}  // namespace verbena::rcud
