// SPDX-License-Identifier: Apache-2.0
// The options --device and --gid-index of the programs that open an RDMA device.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace verbena::tools {

inline void add_device_option(CLI::App& app, std::string& device) {
	app.add_option("--device", device, "RDMA device (default: the best one, see 'verbena devices')");
}

inline void add_gid_option(CLI::App& app, std::optional<int>& index) {
	app.add_option("--gid-index", index, "Index of the device's GID (default: the best one)")
		->check(CLI::Range(0, 255));
}

}  // namespace verbena::tools
