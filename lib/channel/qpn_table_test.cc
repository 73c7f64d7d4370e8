// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/qpn_table.h"

#include <gtest/gtest.h>

#include <unordered_map>

#include "base/random.h"

namespace verbena::channel {
namespace {

TEST(QpnTable, AnEmptyTableFindsNothing) { EXPECT_EQ(QpnTable().find(17), QpnTable::none); }

TEST(QpnTable, BehavesLikeAMap) {
	Random random(1);
	QpnTable table;
	std::unordered_map<std::uint32_t, std::uint32_t> model;
	for (std::uint32_t step = 0; step < 200'000; ++step) {
		const auto qpn = static_cast<std::uint32_t>(random.below(3000));
		if (random.chance(0.5)) {
			if (model.emplace(qpn, step).second) table.insert(qpn, step);
		} else {
			model.erase(qpn);
			table.erase(qpn);
		}
		const auto asked = static_cast<std::uint32_t>(random.below(3000));
		const auto found = model.find(asked);
		ASSERT_EQ(table.find(asked), found == model.end() ? QpnTable::none : found->second);
	}
	EXPECT_EQ(table.size(), model.size());
}

}  // namespace
}  // namespace verbena::channel
