// SPDX-License-Identifier: Apache-2.0
// The facts about our devices for nic/presence, from the functions that answer the queries.
#include "nic/presence/presence.h"

#include <algorithm>
#include <endian.h>

#include "nic/verbs/open_counters.h"
#include "nic/verbs/process.h"

namespace verbena::verbs {
namespace {

presence::DeviceFacts facts_of(const SoftDevice& device) {
	const auto interface = device.interface();
	ibv_device_attr attributes;
	describe_device(device, attributes);
	ibv_port_attr port;
	describe_port(device, port);
	presence::DeviceFacts facts{
		.name = device.public_device.name,
		.number = static_cast<std::uint32_t>(device.index),
		.interface = interface->name,
		.interface_index = interface->index,
		.node_guid = be64toh(attributes.node_guid),
		.sys_image_guid = be64toh(attributes.sys_image_guid),
		.firmware = attributes.fw_ver,
		.capabilities = attributes.device_cap_flags,
		.port =
			{
				.state = port.state,
				.phys_state = port.phys_state,
				.active_width = port.active_width,
				.active_speed = port.active_speed,
				.lid = port.lid,
				.lmc = port.lmc,
				.sm_lid = port.sm_lid,
				.sm_sl = port.sm_sl,
				.port_cap_flags = port.port_cap_flags,
				.ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET,
				.gid_table_length = static_cast<std::uint32_t>(port.gid_tbl_len),
				.pkeys = {0xffff},
			},
	};
	for (const Counter& counter : all_counters()) facts.counters.emplace_back(counter.name);
	for (std::uint32_t i = 0; i < interface->gids.size(); ++i) {
		const wire::Gid* known = engine::gid_at(interface->gids, i);
		if (!known) continue;
		presence::GidFact gid{.index = i, .type = "RoCE v2", .interface = interface->name};
		std::ranges::copy(*known, gid.gid.begin());
		facts.port.gids.push_back(std::move(gid));
	}
	return facts;
}

std::vector<presence::DeviceFacts> devices() {
	std::vector<presence::DeviceFacts> facts;
	visit_devices([&](const SoftDevice& device) { facts.push_back(facts_of(device)); });
	return facts;
}

constexpr presence::Source source{devices, open_counter};

[[gnu::constructor]] void install() { presence::install(source); }

}  // namespace
}  // namespace verbena::verbs
