// SPDX-License-Identifier: Apache-2.0
// The smallest list of items with which something still fails.
//
// Threads: pure functions, but for what `fails` does.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace verbena::tools {

// Leaves out each item for which the rest still fails, one after the other. `fails` holds for
// `items`. If more items never make a failure disappear, no item of the result can be left out.
inline std::vector<std::string> minimize(
	std::vector<std::string> items, const std::function<bool(const std::vector<std::string>&)>& fails) {
	for (std::size_t i = 0; i < items.size();) {
		std::vector<std::string> fewer = items;
		fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
		if (!fewer.empty() && fails(fewer)) items = std::move(fewer);
		else ++i;
	}
	return items;
}

}  // namespace verbena::tools
