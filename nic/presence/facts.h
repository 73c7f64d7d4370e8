// SPDX-License-Identifier: Apache-2.0
// The facts about our devices that a program can find in the file system, and where they come from.
//
// nic/presence shows these facts and knows nothing else of the NIC. nic/verbs supplies them from
// the functions that answer ibv_query_*, so both ways give the same values.
//
// Threads: a Source's functions may be called from any thread; they take locks of their own, so
//   nothing here calls them while it holds a lock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::presence {

// One populated entry of a port's GID table.
struct GidFact {
	std::uint32_t index = 0;
	std::array<std::uint8_t, 16> gid{};
	std::string type;  // as the kernel writes it: "RoCE v2"
	std::string interface;  // the network interface of the address
};

// The values of ibv_port_attr, by the names of that struct.
struct PortFacts {
	std::uint32_t state = 0, phys_state = 0;
	std::uint32_t active_width = 0, active_speed = 0;
	std::uint32_t lid = 0, lmc = 0, sm_lid = 0, sm_sl = 0;
	std::uint32_t port_cap_flags = 0;
	bool ethernet = true;  // link_layer
	std::uint32_t gid_table_length = 0;
	std::vector<GidFact> gids;
	std::vector<std::uint16_t> pkeys;
};

struct DeviceFacts {
	std::string name;  // "vb_eth0"
	std::uint32_t number = 0;  // N of uverbsN, and the result of ibv_get_device_index(3)
	std::string interface;  // "eth0"
	std::uint32_t interface_index = 0;
	std::uint64_t node_guid = 0, sys_image_guid = 0;  // most significant byte first on the wire
	std::string firmware;
	std::uint64_t capabilities = 0;  // ibv_device_attr::device_cap_flags
	PortFacts port;
	std::vector<std::string> counters;  // below ports/1, for example "counters/port_xmit_data"
};

struct Source {
	// Our devices now. May be 0.1 s old.
	std::vector<DeviceFacts> (*devices)();
	// A descriptor whose text is the value of a device's counter at the time of each read; `flags`
	// are those of open(2). -1 with errno.
	int (*open_counter)(std::string_view device, std::string_view counter, int flags);
};

}  // namespace verbena::presence
