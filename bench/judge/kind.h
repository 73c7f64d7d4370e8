// SPDX-License-Identifier: Apache-2.0
// The kind of device that measured a table: software must not be presented as hardware.
//
// It follows from the environment's `kind`, `device`, `peer_kind` and `peer_device` and from the
// rows' `device`, and from nothing else in the file. Upper and lower case are the same, and a value
// that is empty is not said.
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

// A line of the environment in small letters, in whatever case its name is; empty if it is not
// said.
std::string said_of(const Environment& environment, std::string_view name);

// The first software device that a text names, such as vb_lo in "mlx5_0, vb_lo"; empty if it names
// none. Software are the devices of this project (vb_*) and the kernel's (rxe*, siw*).
std::string_view software_device_in(std::string_view text);

// Whether the environment calls the device hardware.
bool is_called_hardware(const Environment& environment);

// "software" if the environment says so about one of the ends, or a device is software; else
// "hardware" if the environment says so; else "unknown". The error says that `kind` or `peer_kind`
// has another value, or that a table that is called hardware names no device.
std::expected<std::string_view, std::string> kind_of(const Table& table);

// A row whose own device, or that of the environment, is software is invalid if the environment
// says hardware; so is each row if the same is true of the peer, or if the GID is one at which a
// host reaches itself. A name with characters beyond printable ASCII is that of no device.
// `findings` has an entry for each row.
void examine_devices(const Table& table, std::span<Findings> findings);

}  // namespace verbena::bench
