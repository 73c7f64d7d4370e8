// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/device.h"

#include <net/if.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

namespace verbena::lib {
namespace {

struct DeviceList {
	int count = 0;
	ibv_device** devices = ibv_get_device_list(&count);
	~DeviceList() {
		if (devices != nullptr) ibv_free_device_list(devices);
	}
	DeviceList() = default;
	DeviceList(const DeviceList&) = delete;
};

constexpr const char* no_device =
	"no RDMA device: run under 'verbena run -- PROGRAM' for a software one ('verbena doctor' says what stands in the "
	"way)";

PortInfo describe_port(ibv_context* context, std::uint8_t number) {
	PortInfo info{.number = number};
	ibv_port_attr port{};
	if (ibv_query_port(context, number, &port) != 0) return info;
	info.state = port.state;
	info.active_mtu_bytes = 128u << port.active_mtu;
	info.ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	info.rate = rate_text(port);

	// The kernel refuses a table of more than 64 KiB instead of filling a part of it.
	constexpr std::size_t entries_max = 65'535 / sizeof(ibv_gid_entry);
	std::vector<ibv_gid_entry> table(
		std::min(static_cast<std::size_t>(std::max(port.gid_tbl_len, 1)) * 2, entries_max));
	const ssize_t entries = ibv_query_gid_table(context, table.data(), table.size(), 0);
	for (ssize_t i = 0; i < entries; ++i) {
		const ibv_gid_entry& entry = table[static_cast<std::size_t>(i)];
		if (entry.port_num != number || kind_of(entry.gid) == GidKind::empty) continue;
		char interface[IF_NAMESIZE] = "";
		if (entry.ndev_ifindex != 0) if_indextoname(entry.ndev_ifindex, interface);
		info.gids.push_back({.index = entry.gid_index,
			.gid = entry.gid,
			.type = static_cast<GidType>(entry.gid_type),
			.interface = interface});
	}
	return info;
}

struct Candidate {
	const DeviceInfo* device;
	const PortInfo* port;
	const GidEntry* gid;
	std::size_t order;
};

// The rules of device.h, as a tuple: the smallest wins.
auto rank(const Candidate& candidate, const DeviceRequest& wish) {
	const GidKind kind = kind_of(candidate.gid->gid);
	const bool preferred_here = wish.both_ends_on_this_host && candidate.device->name == "vb_lo";
	const bool nowhere = candidate.port->ethernet && candidate.gid->interface.empty();
	const bool right_type = !candidate.port->ethernet || candidate.gid->type == GidType::roce_v2;
	const GidKind worth = wish.both_ends_on_this_host && kind == GidKind::loopback ? GidKind::ipv4 : kind;
	const bool unlike_peer = wish.peer && kind != kind_of(*wish.peer);
	return std::tuple(
		!preferred_here, nowhere, !right_type, unlike_peer, worth, candidate.device->software, candidate.order);
}

std::string reason_for(const Candidate& best, const DeviceRequest& wish) {
	std::string why = best.device->software ? "software" : "hardware";
	why.append(", port ACTIVE, ").append(name_of(best.gid->type)).append(", ");
	why.append(name_of(kind_of(best.gid->gid))).append(" address");
	if (!wish.device.empty()) return "named by --device; " + why;
	if (wish.both_ends_on_this_host && best.device->name == "vb_lo")
		return "both ends on this host: the loopback device; " + why;
	return why;
}

}  // namespace

// The kernel lists rxe and siw among its virtual devices.
bool is_software(const std::string& device) {
	if (device.starts_with("vb_")) return true;
	std::error_code error;
	const auto path = std::filesystem::canonical("/sys/class/infiniband/" + device, error);
	return !error && path.string().find("/virtual/") != std::string::npos;
}

std::expected<std::vector<DeviceInfo>, std::string> list_devices() {
	const DeviceList list;
	if (list.devices == nullptr || list.count == 0) return std::unexpected(no_device);

	std::vector<DeviceInfo> devices;
	for (int i = 0; i < list.count; ++i) {
		DeviceInfo info{.name = ibv_get_device_name(list.devices[i])};
		info.software = is_software(info.name);
		const Context context(ibv_open_device(list.devices[i]));
		ibv_device_attr attributes{};
		if (!context) {
			info.problem = failure("ibv_open_device", errno);
		} else if (const int error = ibv_query_device(context.get(), &attributes); error != 0) {
			info.problem = failure("ibv_query_device", error);
		} else {
			for (int port = 1; port <= attributes.phys_port_cnt; ++port)
				info.ports.push_back(describe_port(context.get(), static_cast<std::uint8_t>(port)));
		}
		devices.push_back(std::move(info));
	}
	return devices;
}

std::expected<Choice, std::string> choose(std::span<const DeviceInfo> devices, const DeviceRequest& wish) {
	if (devices.empty()) return std::unexpected(no_device);
	const auto named = std::ranges::find(devices, wish.device, &DeviceInfo::name);
	if (!wish.device.empty() && named == devices.end()) {
		std::string names;
		for (const DeviceInfo& device : devices) names += (names.empty() ? "" : ", ") + device.name;
		return std::unexpected("no device '" + wish.device + "'; the devices are: " + names);
	}

	std::vector<Candidate> candidates;
	bool some_port_active = false, some_gid = false;
	for (const DeviceInfo& device : devices) {
		if (!wish.device.empty() && device.name != wish.device) continue;
		for (const PortInfo& port : device.ports) {
			if (port.state != IBV_PORT_ACTIVE) continue;
			some_port_active = true;
			for (const GidEntry& gid : port.gids) {
				if (wish.gid_index && static_cast<std::uint32_t>(*wish.gid_index) != gid.index) continue;
				some_gid = true;
				if (wish.peer && port.ethernet && is_ipv4_mapped(gid.gid) != is_ipv4_mapped(*wish.peer)) continue;
				candidates.push_back({&device, &port, &gid, candidates.size()});
			}
		}
	}
	if (candidates.empty()) {
		if (!wish.device.empty() && !named->problem.empty())
			return std::unexpected(wish.device + ": " + named->problem);
		const std::string where = wish.device.empty() ? "any device" : "'" + wish.device + "'";
		if (!some_port_active)
			return std::unexpected("no port of " + where + " is ACTIVE ('verbena devices' shows them)");
		if (some_gid)
			return std::unexpected("no " + std::string(is_ipv4_mapped(*wish.peer) ? "IPv4" : "IPv6") + " GID on " +
				where + ", as the peer's " + format_gid(*wish.peer) + " needs ('verbena devices' shows them)");
		if (wish.gid_index)
			return std::unexpected("no GID with index " + std::to_string(*wish.gid_index) + " on " + where);
		return std::unexpected("no GID on " + where + " ('verbena devices' shows them)");
	}
	const Candidate best =
		*std::ranges::min_element(candidates, {}, [&](const Candidate& each) { return rank(each, wish); });
	return Choice{.device = best.device->name,
		.software = best.device->software,
		.port = best.port->number,
		.gid_index = best.gid->index,
		.gid = best.gid->gid,
		.why = reason_for(best, wish)};
}

namespace {

// Queries the device and the port of an open context, and makes the protection domain.
std::expected<OpenDevice, std::string> initialize_device(OpenDevice device) {
	if (const int error = ibv_query_device(device.context.get(), &device.attributes); error != 0)
		return std::unexpected(failure("ibv_query_device", error));
	if (const int error = ibv_query_port(device.context.get(), device.choice.port, &device.port); error != 0)
		return std::unexpected(failure("ibv_query_port", error));
	auto domain = make_protection_domain(device.context.get());
	if (!domain) return std::unexpected(domain.error());
	device.domain = std::move(*domain);
	return device;
}

}  // namespace

std::expected<OpenDevice, std::string> open(const Choice& choice) {
	const DeviceList list;
	for (int i = 0; i < list.count; ++i) {
		if (choice.device != ibv_get_device_name(list.devices[i])) continue;
		OpenDevice device{.choice = choice};
		device.context.reset(ibv_open_device(list.devices[i]));
		if (!device.context) return std::unexpected(choice.device + ": " + failure("ibv_open_device", errno));
		return initialize_device(std::move(device));
	}
	return std::unexpected("device '" + choice.device + "' no longer exists");
}

std::expected<OpenDevice, std::string> borrow(ibv_context* context, std::uint8_t port, const ibv_gid& gid) {
	const std::string name = ibv_get_device_name(context->device);
	OpenDevice device{
		.choice = {.device = name, .software = is_software(name), .port = port, .gid = gid, .why = "the connection's"},
		.context = Context(context, {.borrowed = true})};
	return initialize_device(std::move(device));
}

std::expected<OpenDevice, std::string> open_best(const DeviceRequest& wish) {
	const auto devices = list_devices();
	if (!devices) return std::unexpected(devices.error());
	const auto choice = choose(*devices, wish);
	if (!choice) return std::unexpected(choice.error());
	return open(*choice);
}

std::string rate_text(const ibv_port_attr& port) {
	// The encodings of PortInfo (InfiniBand specification): active_width 1 is 1x, 2 is 4x, 4 is 8x,
	// 8 is 12x, 16 is 2x; active_speed is a code for the Gb/s of each lane.
	const double lanes = port.active_width == 1 ? 1
		: port.active_width == 2                ? 4
		: port.active_width == 4                ? 8
		: port.active_width == 8                ? 12
		: port.active_width == 16               ? 2
												: 0;
	double gigabits = 0;
	switch (port.active_speed) {
		case 1: gigabits = 2.5; break;
		case 2: gigabits = 5; break;
		case 4:
		case 8: gigabits = 10; break;
		case 16: gigabits = 14; break;
		case 32: gigabits = 25; break;
		case 64: gigabits = 50; break;
		case 128: gigabits = 100; break;
		default: break;
	}
	if (lanes * gigabits == 0) return "";
	std::string text = std::to_string(lanes * gigabits);
	text.erase(text.find_last_not_of('0') + 1);
	if (text.ends_with('.')) text.pop_back();
	return text + " Gb/s";
}

std::string link_text(const OpenDevice& device) {
	const std::string kind = device.ethernet() ? "Ethernet" : "InfiniBand";
	const std::string rate = device.choice.software ? "" : rate_text(device.port);
	return rate.empty() ? kind : kind + ", " + rate;
}

std::string_view name_of(GidType type) {
	switch (type) {
		case GidType::infiniband: return "InfiniBand";
		case GidType::roce_v1: return "RoCE v1";
		case GidType::roce_v2: return "RoCE v2";
	}
	return "unknown type";
}

}  // namespace verbena::lib
