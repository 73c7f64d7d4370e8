// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/trials.h"

#include <gtest/gtest.h>

namespace verbena::rcud {
namespace {

TEST(TrialCells, PutRcBesideUdAndSegmentOnlyWhatIsTooLarge) {
	Cells options;
	options.sizes = {4096, 8192};
	options.windows = {4};
	options.window_modes = {WindowMode::local};
	options.oversize = Oversize::segment;
	const auto cells = cells_of(options, 4096);
	ASSERT_EQ(cells.size(), 4u);
	EXPECT_EQ(cells[0].mode, Mode::rc);
	EXPECT_EQ(cells[1].mode, Mode::ud);
	EXPECT_EQ(cells[2].mode, Mode::rc);
	EXPECT_EQ(cells[3].mode, Mode::ud_segmented);
}

}  // namespace
}  // namespace verbena::rcud
