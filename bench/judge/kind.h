// SPDX-License-Identifier: Apache-2.0
// The kind of device that measured a table: software must not be presented as hardware.
//
// It follows from the environment's `kind` and `device` and from the rows' `device`, and from
// nothing else in the file. Upper and lower case are the same.
//
// Threads: pure functions.
#pragma once

#include <expected>
#include <span>
#include <string>
#include <string_view>

#include "bench/judge/findings.h"
#include "bench/table/row.h"

namespace verbena::bench {

// The first software device that a text names, such as vb_lo in "mlx5_0, vb_lo"; empty if it names
// none. Software are the devices of this project (vb_*) and the kernel's (rxe*, siw*).
std::string_view software_device_in(std::string_view text);

// Whether the environment calls the device hardware.
bool is_called_hardware(const Environment& environment);

// "software" if the environment says so or a device is software; else "hardware" if the environment
// says so; else "unknown". The error says that `kind` has another value.
std::expected<std::string_view, std::string> kind_of(const Table& table);

// A row whose own device, or that of the environment, is software is invalid if the environment
// says hardware. `findings` has an entry for each row.
void examine_devices(const Table& table, std::span<Findings> findings);

}  // namespace verbena::bench
