// SPDX-License-Identifier: Apache-2.0
// The tuning options of echo_server. Each is named as --print-config prints it: `units_max` is
// --units-max. A number that the user does not give keeps the value that the program chose.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/scale/echo_service.h"

namespace verbena::tools {

class ChannelOptions {
public:
	ChannelOptions();
	ChannelOptions(const ChannelOptions&) = delete;
	ChannelOptions& operator=(const ChannelOptions&) = delete;

	// Declares the options; `app` must not parse after this object is destroyed.
	void add_to(CLI::App& app);
	// Overwrites the numbers that the user gave and adapts those that depend on them (first <=
	// max). Call after parsing, and after `echo.logical` is set.
	void apply(scale::EchoOptions& echo) const;

private:
	// Whether the user gave this number; `name` is as in --print-config.
	bool chosen(const char* name) const;

	std::string recv_mode_ = "srq", watermark_ = "wait";
	bool coalesce_ = true, fragments_on_heap_ = false;
	std::vector<std::optional<std::uint64_t>> values_;  // one for each number; empty: not given
};

}  // namespace verbena::tools
