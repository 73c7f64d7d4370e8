// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/labels.h"

#include <gtest/gtest.h>

#include <set>

namespace verbena::rpcbench {
namespace {

TEST(Labels, OneTextStandsForOneSize) {
	for (const std::uint64_t size : {1ull, 128ull, 1023ull, 1024ull, 1025ull, 4096ull, 1ull << 20, 63ull << 20})
		EXPECT_EQ(bytes_of(size_text(size)), size);
	EXPECT_EQ(size_text(128), "128B");
	EXPECT_EQ(size_text(4096), "4K");
	EXPECT_EQ(size_text(8 << 20), "8M");
	for (const char* other : {"", "B", "0B", "128", "1024B", "1024K", "4k", "4KB", "-1B", "1e3B", "4K ", "large"})
		EXPECT_FALSE(bytes_of(other)) << other;
}

TEST(Labels, CellsHaveTitlesOfTheirOwn) {
	std::vector<CellOptions> cells{{.rdma = true, .size = 128, .concurrency = 16}};
	const auto add = [&](auto change) { change(cells.emplace_back(cells.front())); };
	add([](CellOptions& cell) { cell.rdma = false; });
	add([](CellOptions& cell) { cell.mode = Mode::echo; });
	add([](CellOptions& cell) { cell.size = 129; });
	add([](CellOptions& cell) { cell.concurrency = 17; });
	add([](CellOptions& cell) { cell.connections = 2; });
	add([](CellOptions& cell) { cell.per_connection = true; });
	add([](CellOptions& cell) { cell.registered = true; });
	for (const System other : {System::grpc, System::capnp}) add([&](CellOptions& cell) { cell.system = other; });
	for (const Behaviour each : all_behaviours())
		for (const bool without : {false, true})
			add([&](CellOptions& cell) {
				cell.ablation = each;
				cell.without = without;
			});
	std::set<std::string> titles;
	for (const CellOptions& cell : cells) titles.insert(title(columns_of(cell)));
	EXPECT_EQ(titles.size(), cells.size());
	EXPECT_EQ(title(columns_of(cells.front())), "128B x 16 over rdma");
	EXPECT_EQ(title({{"request_size", "128B"}, {"concurrency", "16"}}), "128B x 16") << "a published row";
}

}  // namespace
}  // namespace verbena::rpcbench
