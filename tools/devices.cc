// SPDX-License-Identifier: Apache-2.0
// verbena devices: lists the RDMA devices with their ports and GIDs, and says which device a
// program gets that names none.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/verbs/device.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/loopback_device.h"

namespace verbena::tools {
namespace {

using Json = nlohmann::ordered_json;

const char* state_name(ibv_port_state state) {
	switch (state) {
		case IBV_PORT_ACTIVE: return "ACTIVE";
		case IBV_PORT_DOWN: return "DOWN";
		case IBV_PORT_INIT: return "INIT";
		case IBV_PORT_ARMED: return "ARMED";
		default: return "unknown";
	}
}

Json describe(const lib::DeviceInfo& device) {
	Json json{{"name", device.name}, {"kind", device.software ? "software" : "hardware"}, {"ports", Json::array()}};
	if (!device.problem.empty()) json["problem"] = device.problem;
	for (const lib::PortInfo& port : device.ports) {
		Json one{{"port", port.number}, {"state", state_name(port.state)}, {"mtu", port.active_mtu_bytes},
			{"link", port.ethernet ? "Ethernet" : "InfiniBand"}, {"rate", port.rate}, {"gids", Json::array()}};
		for (const lib::GidEntry& gid : port.gids)
			one["gids"].push_back(
				{{"index", gid.index}, {"gid", lib::format_gid(gid.gid)}, {"type", lib::name_of(gid.type)},
					{"address", lib::name_of(lib::kind_of(gid.gid))}, {"interface", gid.interface}});
		json["ports"].push_back(std::move(one));
	}
	return json;
}

Json describe(const std::expected<lib::Choice, std::string>& choice) {
	if (!choice) return {{"none", choice.error()}};
	return {{"device", choice->device}, {"port", choice->port}, {"gid_index", choice->gid_index},
		{"gid", lib::format_gid(choice->gid)}, {"why", choice->why}};
}

void print(const Json& json) {
	for (const Json& device : json["devices"]) {
		fmt::print("{}  {}\n", device["name"].get<std::string>(), device["kind"].get<std::string>());
		if (device.contains("problem")) fmt::print("  {}\n", device["problem"].get<std::string>());
		for (const Json& port : device["ports"]) {
			fmt::print("  port {}  {}  MTU {}  {}  {}\n", port["port"].get<int>(), port["state"].get<std::string>(),
				port["mtu"].get<int>(), port["link"].get<std::string>(), port["rate"].get<std::string>());
			for (const Json& gid : port["gids"])
				fmt::print("    GID {:<3} {}  {}  {}  {}\n", gid["index"].get<int>(), gid["gid"].get<std::string>(),
					gid["type"].get<std::string>(), gid["address"].get<std::string>(),
					gid["interface"].get<std::string>());
		}
	}
	const auto chosen = [](const char* when, const Json& choice) {
		if (choice.contains("none")) fmt::print("{}: none: {}\n", when, choice["none"].get<std::string>());
		else
			fmt::print("{}: {} port {} GID {} ({})\n", when, choice["device"].get<std::string>(),
				choice["port"].get<int>(), choice["gid_index"].get<int>(), choice["why"].get<std::string>());
	};
	fmt::print("\n");
	chosen("chosen between hosts       ", json["chosen_between_hosts"]);
	chosen("chosen within this host    ", json["chosen_on_this_host"]);
}

}  // namespace

void add_devices(CLI::App& app, Action& action) {
	CLI::App* sub =
		add_command(app, "devices", "List the RDMA devices, and say which one is chosen by default and why");
	sub->footer("Examples:\n  verbena devices\n  verbena devices --json");
	auto json = std::make_shared<bool>(false);
	sub->add_flag("--json", *json, "Print JSON");
	sub->callback([json, &action] {
		action = [json]() -> int {
			list_loopback_device();
			const auto devices = lib::list_devices();
			if (!devices) return complain(devices.error());
			Json all{{"devices", Json::array()}, {"chosen_between_hosts", describe(lib::choose(*devices, {}))},
				{"chosen_on_this_host", describe(lib::choose(*devices, {.both_ends_on_this_host = true}))}};
			for (const lib::DeviceInfo& device : *devices) all["devices"].push_back(describe(device));
			if (*json) fmt::print("{}\n", all.dump(2));
			else print(all);
			return good;
		};
	});
}

}  // namespace verbena::tools
