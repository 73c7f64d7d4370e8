// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/trials.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace verbena::kvbench {
namespace {

Cells quick() { return {.protos = {Proto::eager, Proto::automatic}, .sizes = {64, 4096}, .windows = {1, 8}}; }

TEST(KvCells, TheFormIsMeasuredWhereItMeansSomething) {
	Cells options = quick();
	options.forms = {Form::read, Form::write};
	const auto cells = cells_of(options);
	// SET: eager, and auto twice; GET: eager and auto.
	EXPECT_EQ(cells.size(), 2u * 2 * (3 + 2));
	EXPECT_TRUE(std::ranges::none_of(cells, [](const Cell& cell) {
		return cell.form == Form::write && (cell.op == Op::get || cell.proto == Proto::eager);
	}));
}

TEST(KvCells, ASetIsNotOneSided) {
	Cells options = quick();
	options.protos = {Proto::one_sided};
	EXPECT_EQ(cells_of(options).size(), 4u);
	EXPECT_GT(one_sided_bytes(options), 0u);
	options.ops = {Op::set};
	EXPECT_TRUE(cells_of(options).empty());
	EXPECT_EQ(one_sided_bytes(quick()), 0u);
}

TEST(KvCells, EachParameterIsVariedByItself) {
	Cells options = quick();
	options.sensitivity = {Varied::depth, Varied::warmup, Varied::iters};
	for (const Cell& cell : cells_of(options)) {
		const Cell usual = options.common;
		EXPECT_TRUE(cell.varied == Varied::depth || cell.rx_depth == usual.rx_depth);
		EXPECT_TRUE(cell.varied == Varied::warmup || cell.warmup == usual.warmup);
		EXPECT_TRUE(cell.varied == Varied::iters || cell.iters == usual.iters);
		EXPECT_EQ(cell.rx_depth, cell.tx_depth);
		EXPECT_NE(cell.varied, Varied::nothing);
	}
	EXPECT_EQ(cells_of(options).size(), 16u * (5 + 6 + 4));
}

TEST(KvCells, EachCellIsMeasuredWithoutAndWithStalledClientsInTurn) {
	Cells options = quick();
	options.stalled = 2;
	const auto cells = cells_of(options);
	ASSERT_EQ(cells.size(), 32u);
	for (std::size_t i = 0; i < cells.size(); ++i) EXPECT_EQ(cells[i].stalled, i % 2 == 0 ? 0u : 2u);
}

TEST(KvCells, AnotherSystemHasACellOfItsOwnForEachTransport) {
	Cells options = quick();
	options.rivals = {System::redis, System::memcached};
	options.common.clients = 3;
	const auto cells = cells_of(options);
	EXPECT_EQ(cells.size(), 16u + 2 * 2 * 8);
	for (const Cell& cell : cells)
		EXPECT_TRUE(cell.system == System::verbena || (cell.clients == 1 && cell.transport != Transport::rdma));
}

TEST(KvCells, AWindowOfRequestsThatNoClientCanHoldIsNotApplicable) {
	Cells options{.protos = {Proto::eager}, .sizes = {64 << 20}, .windows = {64}, .rivals = {System::redis}};
	Sessions sessions({});
	const auto trials = trials_of(options, sessions);
	const bench::Trial& last = *trials.back();
	EXPECT_FALSE(last.can_run());
	EXPECT_EQ(
		last.row(bench::Json::array())["reason"], "the client would need more than 256 MiB for a window of requests");
}

}  // namespace
}  // namespace verbena::kvbench
