#include "bench/rcud/sweep.h"

#include <gtest/gtest.h>

#include "bench/validity.h"

namespace verbena::rcud {
namespace {

const Cell cell{.mode = Mode::ud, .window_mode = WindowMode::credit, .msg = 1024, .window = 4};

Repetition measured(double mops) {
	Repetition repetition{.iters = 1000, .posted = 1000, .completed = 1000};
	repetition.delivery = {.delivered = 1000, .counted = 999, .counted_ns = static_cast<std::uint64_t>(999e3 / mops)};
	for (int i = 0; i < 10; ++i) repetition.latency_ns.record(2000);
	repetition.rtt_before_ns = repetition.rtt_after_ns = 110;
	return repetition;
}

TEST(SweepRow, HasTheMedianAndTheSums) {
	const auto row = make_row(cell, "vb_lo", 4096, {measured(1.0), measured(3.0), measured(2.0)});
	EXPECT_EQ(row.experiment, "msg_sweep");
	EXPECT_EQ(row.mode, "UD");
	EXPECT_EQ(row.window_mode, "credit");
	EXPECT_EQ(row.iters, 1000u);
	EXPECT_NEAR(*row.mops, 2.0, 0.001);
	EXPECT_NEAR(*row.gib, 2.0 * 1e6 * 1024 / (1 << 30), 0.001);
	EXPECT_NEAR(*row.mops_low, 1.0, 0.001);
	EXPECT_NEAR(*row.mops_high, 3.0, 0.001);
	EXPECT_NEAR(*row.spread, 1.0, 0.001);
	EXPECT_EQ(row.posted, 3000u);
	EXPECT_EQ(row.delivered, 3000u);
	EXPECT_EQ(row.lost, 0u);
	EXPECT_NEAR(*row.p50_us, 2.0, 2.0 / 64);
	EXPECT_EQ(row.rtt_class, "near");
	EXPECT_EQ(Json::parse(row.repetition_counts).size(), 3u);
}

TEST(SweepRow, HasTheClassMixedWhenTheRoundTripChanged) {
	auto moved = measured(1.0);
	moved.rtt_after_ns = 340;
	EXPECT_EQ(make_row(cell, "vb_lo", 4096, {measured(1.0), moved}).rtt_class, "mixed");
}

TEST(SweepRow, ARepetitionThatBrokeMakesItInvalidAndSaysWhy) {
	auto broken = measured(1.0);
	broken.failure = "the other process ended";
	broken.delivery = {.delivered = 400};
	auto row = make_row(cell, "vb_lo", 4096, {broken});
	bench::judge(std::span(&row, 1));
	EXPECT_EQ(row.validity, "invalid");
	EXPECT_NE(row.reason.find("ended (1000 posted, 400 known to be delivered)"), std::string::npos);
	EXPECT_EQ(row.lost, 600u);
	EXPECT_EQ(row.reason.find("600 of"), std::string::npos) << "messages in flight were not lost by the transport";
	EXPECT_EQ(row.mops, 0.0);
}

TEST(SweepRow, NothingDeliveredIsZeroAndInvalid) {
	auto silent = measured(1.0);
	silent.delivery = {};
	auto row = make_row({.mode = Mode::ud, .msg = 8192, .window = 4}, "vb_lo", 4096, {silent, silent});
	bench::judge(std::span(&row, 1));
	EXPECT_EQ(row.validity, "invalid");
	EXPECT_EQ(row.mops, 0.0);
	EXPECT_EQ(row.delivered, 0u);
	EXPECT_NE(row.reason.find("larger than the MTU"), std::string::npos);
}

TEST(SweepRow, ARunThatEndedEarlyIsSuspect) {
	auto early = measured(1.0);
	early.iters = 5000;
	const auto row = make_row(cell, "vb_lo", 4096, {early});
	EXPECT_EQ(row.validity, "suspect");
	EXPECT_NE(row.reason.find("ended after 1000 of 5000"), std::string::npos);
}

TEST(SweepRow, DamageIsInvalid) {
	auto damaged = measured(1.0);
	damaged.delivery.corrupt = 1;
	EXPECT_EQ(make_row(cell, "vb_lo", 4096, {damaged}).validity, "invalid");
}

TEST(SweepCells, PutRcBesideUdAndSegmentOnlyWhatIsTooLarge) {
	SweepOptions options;
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
