// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/trials.h"

#include <gtest/gtest.h>

#include "bench/rpc/labels.h"

namespace verbena::rpcbench {
namespace {

std::vector<std::string> titles_of(const Matrix& matrix) {
	std::vector<std::string> titles;
	for (const CellOptions& cell : cells_of(matrix)) titles.push_back(title(columns_of(cell)));
	return titles;
}

TEST(RpcCells, OtherSystemsFollowOursOverTcp) {
	EXPECT_EQ(titles_of({.sizes = {128}, .concurrency = {4}, .others = {System::grpc, System::capnp}}),
		(std::vector<std::string>{
			"128B x 4 over tcp", "128B x 4 over tcp by grpc", "128B x 4 over tcp by capnp", "128B x 4 over rdma"}));
}

TEST(RpcCells, AnAblationHasEachCellWithAndWithoutIt) {
	EXPECT_EQ(titles_of({.sizes = {128}, .concurrency = {4}, .ablations = {Behaviour::inline_data}}),
		(std::vector<std::string>{"128B x 4 over rdma, with inline", "128B x 4 over rdma, without inline"}));
	EXPECT_EQ(titles_of({.over_rdma = {false}, .ablations = {Behaviour::inline_data}}), std::vector<std::string>());
	const auto own = cells_of({.over_rdma = {false}, .ablations = {Behaviour::coalescing}});
	EXPECT_EQ(own.size(), 6u) << "its own size and concurrencies";
}

TEST(RpcCells, ACellIsMeasuredOnceHoweverOftenItIsAskedFor) {
	EXPECT_EQ(cells_of({.sizes = {128, 128}, .concurrency = {4, 4}, .over_rdma = {true, true}}).size(), 1u);
}

TEST(RpcCells, HaveNoMoreConnectionsThanCallersAndOptionsOfRdmaOnlyOverRdma) {
	const auto cells = cells_of({.sizes = {128},
		.concurrency = {1, 16},
		.options = {.connections = 4, .per_connection = true, .registered = true}});
	ASSERT_EQ(cells.size(), 4u);
	EXPECT_EQ(cells[0].connections, 1u);
	EXPECT_EQ(cells[1].connections, 4u);
	EXPECT_FALSE(cells[1].per_connection || cells[1].registered);
	EXPECT_TRUE(cells[3].per_connection && cells[3].registered);
}

}  // namespace
}  // namespace verbena::rpcbench
