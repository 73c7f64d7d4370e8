// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/cell.h"

#include <gtest/gtest.h>

namespace verbena::rcud {
namespace {

TEST(Shape, UdHasNoOneSidedOperations) {
	EXPECT_EQ(shape_of({.mode = Mode::ud, .op = Op::write}, {}, {}).error(), "UD has no RDMA write");
}

TEST(Shape, OnlyRcSendsAllowMessagesTooSmallForAStamp) {
	EXPECT_TRUE(shape_of({.msg = 4}, {}, {}));
	EXPECT_FALSE(shape_of({.mode = Mode::ud, .msg = 4}, {}, {}));
	EXPECT_FALSE(shape_of({.op = Op::read, .msg = 4}, {}, {}));
}

TEST(Shape, SegmentsFillTheMtuWithTheirHeader) {
	const auto shape = shape_of({.mode = Mode::ud_segmented, .msg = 8192}, {}, {.mtu = 4096});
	ASSERT_TRUE(shape);
	EXPECT_EQ(shape->fragments, 3u);
	EXPECT_EQ(shape->fragment_bytes, 4080u);
}

TEST(Shape, UdWithALocalWindowGetsManyReceives) {
	const Limits limits{.queue_depth_max = 2000};
	EXPECT_EQ(shape_of({.mode = Mode::ud, .window = 64}, {}, limits)->receive_depth, 2000u);
	EXPECT_EQ(
		shape_of({.mode = Mode::ud, .window_mode = WindowMode::credit, .window = 64}, {}, limits)->receive_depth, 256u);
	EXPECT_EQ(shape_of({.mode = Mode::ud, .window = 64}, {.receive_depth = 74}, limits)->receive_depth, 74u);
}

TEST(Shape, AWindowAboveTheQueueDepthIsNotApplicable) {
	EXPECT_FALSE(shape_of({.window = 65}, {}, {.queue_depth_max = 128}));
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
	EXPECT_EQ(shape_of({.op = Op::write, .window = 64}, {}, {})->ring_slots, 256u);
	EXPECT_EQ(shape_of({.op = Op::write, .window_mode = WindowMode::credit, .window = 64}, {}, {})->ring_slots, 64u);
}

}  // namespace
}  // namespace verbena::rcud
