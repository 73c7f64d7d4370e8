// The result of one check of `verbena doctor`.
#pragma once

#include <string>
#include <vector>

namespace verbena::tools {

// note: the NIC works without it, but slower or with less. problem: something does not work.
enum class Level { good, note, problem };

struct Finding {
	std::string subject;
	Level level = Level::good;
	std::string seen;
	std::string advice;  // the way out, or the cost; empty if the level is good
};

using Findings = std::vector<Finding>;

}  // namespace verbena::tools
