// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/cell.h"

#include <gtest/gtest.h>

#include <utility>

namespace verbena::rcud {
namespace {

TEST(Cell, ThatSaysNothingElseIsAPublishedOne) {
	const Cell published{.mode = Mode::rc,
		.op = Op::send,
		.window_mode = WindowMode::local,
		.msg = 32,
		.window = 4,
		.qps = 0,
		.senders = 1};
	EXPECT_EQ(Cell{}, published);
}

TEST(Shape, UdHasNoOneSidedOperations) {
	EXPECT_EQ(shape_of({.mode = Mode::ud, .op = Op::write}, {}, {}).error(), "UD has no RDMA write");
}

TEST(Shape, OnlyRcSendsAllowMessagesTooSmallForAStamp) {
	EXPECT_TRUE(shape_of({.msg = 1}, {}, {}));
	EXPECT_FALSE(shape_of({.mode = Mode::ud, .msg = 4}, {}, {}));
	EXPECT_FALSE(shape_of({.mode = Mode::ud, .msg = 7}, {}, {}));
	EXPECT_TRUE(shape_of({.mode = Mode::ud, .msg = 8}, {}, {}));
	for (const Op op : {Op::read, Op::write}) {
		for (const std::uint32_t msg : {4u, 7u}) EXPECT_FALSE(shape_of({.op = op, .msg = msg}, {}, {}));
		EXPECT_TRUE(shape_of({.op = op, .msg = 8}, {}, {}));
	}
}

TEST(Shape, AStampThatIsCheckedNeedsTwiceTheRoomInUd) {
	EXPECT_FALSE(shape_of({.mode = Mode::ud, .msg = 15}, {.verify = true}, {}));
	EXPECT_TRUE(shape_of({.mode = Mode::ud, .msg = 16}, {.verify = true}, {}));
	EXPECT_TRUE(shape_of({.mode = Mode::ud, .msg = 15}, {.verify = false}, {}));
	EXPECT_TRUE(shape_of({.msg = 15}, {.verify = true}, {}));
}

TEST(Shape, SegmentsFillTheMtuWithTheirHeader) {
	const auto shape = shape_of({.mode = Mode::ud_segmented, .msg = 8192}, {}, {.mtu = 4096});
	ASSERT_TRUE(shape);
	EXPECT_EQ(shape->fragments, 3u);
	EXPECT_EQ(shape->fragment_bytes, 4080u);
	EXPECT_EQ(shape_of({.mode = Mode::ud_segmented, .msg = 2 * 4080}, {}, {.mtu = 4096})->fragments, 2u);
	EXPECT_EQ(shape_of({.mode = Mode::ud, .msg = 4096}, {}, {.mtu = 4096})->fragments, 1u);
}

TEST(Shape, AMessageHasAtMost64Segments) {
	const Limits limits{.mtu = 4096, .queue_depth_max = 1 << 20};
	EXPECT_EQ(shape_of({.mode = Mode::ud_segmented, .msg = 64 * 4080}, {}, limits)->fragments, 64u);
	EXPECT_FALSE(shape_of({.mode = Mode::ud_segmented, .msg = 64 * 4080 + 1}, {}, limits));
}

TEST(Shape, ASlotBeginsAtACacheLine) {
	for (const auto& [msg, stride] : {std::pair{1u, 64u}, {64u, 64u}, {65u, 128u}, {4096u, 4096u}})
		EXPECT_EQ(shape_of({.msg = msg}, {}, {})->stride, stride) << msg;
}

TEST(Shape, RcHasReceivesForFourWindowsAndOneSidedOperationsHaveFew) {
	const Limits limits{.queue_depth_max = 4096};
	EXPECT_EQ(shape_of({.window = 1}, {}, limits)->receive_depth, 64u);
	EXPECT_EQ(shape_of({.window = 17}, {}, limits)->receive_depth, 68u);
	EXPECT_EQ(shape_of({.op = Op::write, .window = 64}, {}, limits)->receive_depth, 16u);
	EXPECT_EQ(shape_of({.op = Op::read, .window = 64}, {}, limits)->receive_depth, 16u);
}

TEST(Shape, UdWithALocalWindowGetsManyReceives) {
	const Limits limits{.queue_depth_max = 2000};
	EXPECT_EQ(shape_of({.mode = Mode::ud, .window = 64}, {}, limits)->receive_depth, 2000u);
	const Limits deep{.mtu = 4096, .queue_depth_max = 100'000};
	EXPECT_EQ(shape_of({.mode = Mode::ud, .msg = 64, .window = 64}, {}, deep)->receive_depth, 4096u);
	EXPECT_EQ(shape_of({.mode = Mode::ud, .msg = 4096, .window = 64}, {}, deep)->receive_depth, (8u << 20) / 4160);
	EXPECT_EQ(shape_of({.mode = Mode::ud_segmented, .msg = 8160, .window = 64}, {}, deep)->receive_depth,
		(8u << 20) / (4080 + 64));
	EXPECT_EQ(
		shape_of({.mode = Mode::ud, .window_mode = WindowMode::credit, .window = 64}, {}, limits)->receive_depth, 256u);
	EXPECT_EQ(shape_of({.mode = Mode::ud, .window = 64}, {.receive_depth = 74}, limits)->receive_depth, 74u);
}

TEST(Shape, AWindowAboveTheQueueDepthIsNotApplicable) {
	EXPECT_TRUE(shape_of({.window = 64}, {}, {.queue_depth_max = 128}));
	EXPECT_FALSE(shape_of({.window = 65}, {}, {.queue_depth_max = 128}));
	const Limits limits{.mtu = 4096, .queue_depth_max = 128};
	EXPECT_TRUE(shape_of({.mode = Mode::ud_segmented, .msg = 8160, .window = 32}, {}, limits));
	EXPECT_EQ(shape_of({.mode = Mode::ud_segmented, .msg = 8160, .window = 33}, {}, limits).error(),
		"window 33 > 32, half of the device's queue depth");
}

// With a completion every N messages and a credit every C, the sender does not know of up to N - 1
// (or C - 1) finished messages; a list must fit into the window beside them.
TEST(Shape, ListsSignalsAndCreditsAlwaysFitTheWindow) {
	for (const std::uint32_t window : {1u, 2u, 3u, 4u, 7u, 64u})
		for (const std::uint32_t list : {1u, 4u, 100u})
			for (const std::uint32_t signal : {1u, 16u})
				for (const WindowMode mode : {WindowMode::local, WindowMode::credit}) {
					const auto shape = shape_of(
						{.window_mode = mode, .window = window}, {.post_list = list, .signal_every = signal}, {});
					ASSERT_TRUE(shape);
					EXPECT_GE(shape->post_list, 1u);
					EXPECT_LE(shape->post_list + shape->signal_every - 1, window);
					if (mode == WindowMode::credit) {
						EXPECT_LE(shape->post_list + shape->credit_every - 1, window);
					}
				}
}

TEST(Shape, AWriteRingInLocalModeHoldsSeveralWindows) {
	EXPECT_EQ(shape_of({.op = Op::write, .window = 1}, {}, {})->ring_slots, 64u);
	EXPECT_EQ(shape_of({.op = Op::write, .window = 64}, {}, {})->ring_slots, 256u);
	EXPECT_EQ(shape_of({.op = Op::read, .window = 64}, {}, {})->ring_slots, 64u);
	EXPECT_EQ(shape_of({.op = Op::write, .window_mode = WindowMode::credit, .window = 64}, {}, {})->ring_slots, 64u);
}

TEST(Shape, ACreditComesForAQuarterOfTheRingOrOfTheWindow) {
	EXPECT_EQ(shape_of({.op = Op::write, .window = 64}, {}, {})->credit_every, 64u);
	EXPECT_EQ(shape_of({.op = Op::write, .window_mode = WindowMode::credit, .window = 64}, {}, {})->credit_every, 16u);
	EXPECT_EQ(shape_of({.window_mode = WindowMode::credit, .window = 64}, {}, {})->credit_every, 16u);
	EXPECT_EQ(shape_of({.window_mode = WindowMode::credit, .window = 3}, {}, {})->credit_every, 1u);
}

TEST(Shape, AListIsAsLongAsWishedIfTheWindowHasRoom) {
	const Settings settings{.post_list = 32, .signal_every = 8};
	EXPECT_EQ(shape_of({.window = 64}, settings, {})->post_list, 32u);
	EXPECT_EQ(shape_of({.window = 64}, settings, {})->signal_every, 8u);
	EXPECT_EQ(shape_of({.window = 32}, settings, {})->post_list, 32u - 7);
	EXPECT_EQ(shape_of({.window = 4}, settings, {})->signal_every, 2u);
	EXPECT_EQ(shape_of({.window_mode = WindowMode::credit, .window = 40}, settings, {})->post_list, 40u - 9);
}

TEST(Cell, ModesOperationsAndWindowsHaveNames) {
	EXPECT_EQ(name_of(Mode::rc), "RC");
	EXPECT_EQ(name_of(Mode::ud), "UD");
	EXPECT_EQ(name_of(Mode::ud_segmented), "UD-seg");
	EXPECT_EQ(name_of(Op::send), "send");
	EXPECT_EQ(name_of(Op::write), "write");
	EXPECT_EQ(name_of(Op::read), "read");
	EXPECT_EQ(name_of(WindowMode::local), "local");
	EXPECT_EQ(name_of(WindowMode::credit), "credit");
}

}  // namespace
}  // namespace verbena::rcud
