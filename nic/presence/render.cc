// SPDX-License-Identifier: Apache-2.0
#include "nic/presence/render.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

namespace verbena::presence {
namespace {

template <class... Arguments> std::string format(const char* pattern, Arguments... arguments) {
	char text[160];
	// NOLINTNEXTLINE(cppcoreguidelines-pro-type-vararg): the patterns are constants of this file
	const int length = std::snprintf(text, sizeof text, pattern, arguments...);
	return {text, static_cast<std::size_t>(std::clamp(length, 0, static_cast<int>(sizeof text) - 1))};
}

std::string guid_text(std::uint64_t guid) {
	return format("%04x:%04x:%04x:%04x\n", static_cast<unsigned>(guid >> 48),
		static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
		static_cast<unsigned>(guid & 0xffff));
}

std::string gid_text(const std::array<std::uint8_t, 16>& gid) {
	std::string text;
	for (std::size_t i = 0; i < gid.size(); i += 2)
		text += format(i == 0 ? "%02x%02x" : ":%02x%02x", gid[i], gid[i + 1]);
	return text + '\n';
}

const char* port_state_name(std::uint32_t state) {
	static constexpr const char* names[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
	return state < std::size(names) ? names[state] : "UNKNOWN";
}

const char* phys_state_name(std::uint32_t state) {
	static constexpr const char* names[] = {"<unknown>", "Sleep", "Polling", "Disabled", "PortConfigurationTraining",
		"LinkUp", "LinkErrorRecovery", "Phy Test"};
	return state < std::size(names) ? names[state] : "<unknown>";
}

void add_file(Tree& tree, const std::string& path, std::string content) {
	tree.add(path, {Kind::file, std::move(content)});
}

void add_link(Tree& tree, const std::string& path, std::string target) {
	tree.add(path, {Kind::link, std::move(target)});
}

void add_port(Tree& tree, const std::string& folder, const DeviceFacts& device) {
	const PortFacts& port = device.port;
	add_file(tree, folder + "/state", format("%u: %s\n", port.state, port_state_name(port.state)));
	add_file(tree, folder + "/phys_state", format("%u: %s\n", port.phys_state, phys_state_name(port.phys_state)));
	add_file(tree, folder + "/rate", rate_text(port.active_width, port.active_speed) + '\n');
	add_file(tree, folder + "/link_layer", port.ethernet ? "Ethernet\n" : "InfiniBand\n");
	add_file(tree, folder + "/lid", format("0x%x\n", port.lid));
	add_file(tree, folder + "/lid_mask_count", format("%u\n", port.lmc));
	add_file(tree, folder + "/sm_lid", format("0x%x\n", port.sm_lid));
	add_file(tree, folder + "/sm_sl", format("%u\n", port.sm_sl));
	add_file(tree, folder + "/cap_mask", format("0x%08x\n", port.port_cap_flags));
	for (std::size_t i = 0; i < port.pkeys.size(); ++i)
		add_file(tree, format("%s/pkeys/%zu", folder.c_str(), i), format("0x%04x\n", port.pkeys[i]));

	// As in the kernel, each index of the table has its files. Reading the attributes of an empty
	// one fails with EINVAL.
	const std::string empty = gid_text({});
	for (std::uint32_t i = 0; i < port.gid_table_length; ++i) {
		const std::string index = std::to_string(i);
		const auto found = std::ranges::find(port.gids, i, &GidFact::index);
		const bool populated = found != port.gids.end();
		add_file(tree, folder + "/gids/" + index, populated ? gid_text(found->gid) : empty);
		for (const char* attribute : {"ndevs", "types"}) {
			const std::string path = folder + "/gid_attrs/" + attribute + '/' + index;
			if (!populated) tree.add(path, {Kind::unreadable, {}});
			else add_file(tree, path, (*attribute == 'n' ? found->interface : found->type) + '\n');
		}
	}
	for (const std::string& counter : device.counters)
		tree.add(folder + '/' + counter, {Kind::live, device.name + '/' + counter});
}

void add_device(Tree& tree, const DeviceFacts& device) {
	const std::string folder = "/sys/devices/virtual/infiniband/" + device.name;
	add_file(tree, folder + "/node_type", "1: CA\n");
	add_file(tree, folder + "/node_guid", guid_text(device.node_guid));
	add_file(tree, folder + "/sys_image_guid", guid_text(device.sys_image_guid));
	add_file(tree, folder + "/fw_ver", device.firmware + '\n');
	add_file(tree, folder + "/node_desc", device.name + '\n');
	add_file(tree, folder + "/uevent", "NAME=" + device.name + '\n');
	add_link(tree, folder + "/subsystem", "../../../../class/infiniband");
	// Our NIC is no PCI device, so `device` is a folder and not a link to one.
	tree.add(folder + "/device", {Kind::folder, {}});
	add_link(tree, folder + "/device/net/" + device.interface, "/sys/class/net/" + device.interface);
	add_port(tree, folder + "/ports/1", device);
	add_link(tree, "/sys/class/infiniband/" + device.name, "../../devices/virtual/infiniband/" + device.name);

	const std::string node = "uverbs" + std::to_string(device.number);
	const std::string verbs = "/sys/devices/virtual/infiniband_verbs/" + node;
	const unsigned minor = device_minor_of_first + device.number;
	add_file(tree, verbs + "/ibdev", device.name + '\n');
	add_file(tree, verbs + "/dev", format("%u:%u\n", device_major, minor));
	add_file(tree, verbs + "/abi_version", "1\n");
	add_file(tree, verbs + "/uevent",
		format("MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/%s\n", device_major, minor, node.c_str()));
	add_link(tree, verbs + "/subsystem", "../../../../class/infiniband_verbs");
	add_link(tree, verbs + "/device", "../../infiniband/" + device.name + "/device");
	add_link(tree, "/sys/class/infiniband_verbs/" + node, "../../devices/virtual/infiniband_verbs/" + node);
	tree.add("/dev/infiniband/" + node, {Kind::device, {}, device.number});
}

}  // namespace

std::string rate_text(std::uint32_t width, std::uint32_t speed) {
	struct Speed {
		std::uint32_t code;
		std::uint32_t tenths;  // 0.1 Gbit/s on one lane
		const char* name;
	};
	// As ib_port_attr_to_speed_info() of the kernel counts: the rates of data, not of symbols.
	static constexpr Speed speeds[] = {{1, 25, " SDR"}, {2, 50, " DDR"}, {4, 100, " QDR"}, {8, 100, " FDR10"},
		{16, 140, " FDR"}, {32, 250, " EDR"}, {64, 500, " HDR"}, {128, 1000, " NDR"}, {256, 2000, " XDR"}};
	const std::uint32_t lanes = width == 1 ? 1
		: width == 2                       ? 4
		: width == 4                       ? 8
		: width == 8                       ? 12
		: width == 16                      ? 2
										   : 0;
	const auto* const found = std::ranges::find(speeds, speed, &Speed::code);
	const Speed& known = found == std::end(speeds) ? speeds[0] : *found;
	const std::uint32_t tenths = known.tenths * lanes;
	return format(
		"%u%s Gb/sec (%uX%s)", tenths / 10, tenths % 10 ? ".5" : "", lanes, known.code == 1 ? " SDR" : known.name);
}

Tree render(std::span<const DeviceFacts> devices, std::span<const SystemEntry> system) {
	Tree tree;
	for (const char* folder : {"/dev", "/sys", "/sys/class", "/sys/devices", "/sys/devices/virtual"})
		tree.add(folder, {Kind::passage, {}});
	for (const char* folder : our_folders) tree.add(folder, {Kind::folder, {}});
	// Names outside of our folders that ".." reaches from a folder of ours.
	for (const char* path : {"/sys/class/net", "/sys/devices/virtual/net"}) tree.add(path, {Kind::system, {}});
	for (const DeviceFacts& device : devices) add_device(tree, device);
	add_file(tree, "/sys/class/infiniband_verbs/abi_version", "6\n");
	for (const SystemEntry& path : system)
		if (const Entry* ours = tree.find(path); !ours || ours->kind == Kind::file) tree.add(path, {Kind::system, {}});
	return tree;
}

}  // namespace verbena::presence
