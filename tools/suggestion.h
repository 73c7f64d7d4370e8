// SPDX-License-Identifier: Apache-2.0
// The word that a user may have meant: the nearest of the known ones, or none if none is near.
//
// Threads: pure functions.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::tools {

// The number of letters that must be inserted, deleted, replaced or swapped with their neighbour to
// turn one word into the other.
inline std::size_t distance(std::string_view from, std::string_view to) {
	std::vector<std::vector<std::size_t>> cost(from.size() + 1, std::vector<std::size_t>(to.size() + 1));
	for (std::size_t i = 0; i <= from.size(); ++i)
		for (std::size_t j = 0; j <= to.size(); ++j) {
			if (i == 0 || j == 0) {
				cost[i][j] = i + j;
				continue;
			}
			const std::size_t replaced = cost[i - 1][j - 1] + (from[i - 1] != to[j - 1]);
			cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
			if (i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1])
				cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
		}
	return cost[from.size()][to.size()];
}

// Returns the known word that begins with `word` or differs from it by at most a third of its
// letters; of several the nearest. Empty: there is none.
inline std::string suggestion(std::string_view word, std::span<const std::string> known) {
	const std::size_t most = std::max<std::size_t>(1, word.size() / 3);
	std::string best;
	std::size_t least = most + 1;
	for (const std::string& each : known) {
		const bool begun = word.size() >= 2 && each.starts_with(word) && word != "--";
		const std::size_t away = begun ? 0 : distance(word, each);
		if (away < least) {
			least = away;
			best = each;
		}
	}
	return best;
}

}  // namespace verbena::tools
