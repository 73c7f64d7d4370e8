// The numbers of a server of channels that its user may want to choose. Each is an option by the name that
// --print-config has for it: `units_max` is --units-max. Without an option the program's own number stays.
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

	void add_to(CLI::App& app);
	// What was chosen takes the place of what is there, and what depends on it follows. After `echo.logical` is set.
	void apply(scale::EchoOptions& echo) const;

private:
	bool chosen(const char* name) const;

	std::string recv_mode_ = "srq", watermark_ = "wait";
	bool coalesce_ = true, fragments_on_heap_ = false;
	std::vector<std::optional<std::uint64_t>> values_;  // of each number, if it was chosen
};

}  // namespace verbena::tools
