// SPDX-License-Identifier: Apache-2.0
// A part of a self-test in a process of its own, so that a crash or a hang of it is a finding and
// not the end of the test.
//
// Threads: the main thread only, before another thread is made.
// Owns: the process; it has ended when run_stage() returns.
#pragma once

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace verbena::tools {

using Show = std::function<void(const nlohmann::ordered_json&)>;

// Runs `work` in a forked process and passes each object that it reports to `show`. Returns the
// way in which the process failed: a signal, or no end before `deadline`.
std::optional<std::string> run_stage(std::chrono::steady_clock::time_point deadline,
	const std::function<void(const Show& report)>& work, const Show& show);

}  // namespace verbena::tools
