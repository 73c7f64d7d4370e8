// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/devices.h"

#include <algorithm>
#include <cstdio>
#include <new>
#include <unistd.h>
#include <utility>

#include "base/log.h"
#include "nic/presence/presence.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {
namespace {

bool below(const SoftDevice& device, const engine::Interface& interface) {
	return device.interface_index == interface.index && device.namespace_cookie == interface.namespace_cookie;
}

// The number is the same in every process of this host, so that programs can exchange it. The
// kernel numbers its devices from 0.
int device_number(const engine::Interface& interface) {
	static const bool real_devices = [] {
		const presence::Unseen unseen;  // ours would be looked for here, under the same mutex
		return access("/sys/class/infiniband_verbs/abi_version", F_OK) == 0;
	}();
	return static_cast<int>(interface.index) + (real_devices ? 1000 : 0);
}

// Gives the device its interface's new state, and appends what programs must learn. The port's
// event comes first, as from a kernel, which removes the IPv6 addresses of a link that goes down.
void change(SoftDevice& device, engine::Interface now, std::vector<DeviceEvent>& events) {
	const auto before = device.interface();
	if (now == *before) return;
	if (before->is_active && !now.is_active) ++device.link_downs;
	if (now.is_active != before->is_active)
		events.push_back({&device, now.is_active ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR});
	if (now.gids != before->gids) events.push_back({&device, IBV_EVENT_GID_CHANGE});
	device.set_interface(std::move(now));
}

void remove(SoftDevice& device, std::vector<DeviceEvent>& events) {
	const auto before = device.interface();
	engine::Interface none = *before;
	none.is_up = none.is_active = false;
	none.gids.clear();
	if (before->is_active) events.push_back({&device, IBV_EVENT_PORT_ERR});
	device.link_downs += before->is_active;
	events.push_back({&device, IBV_EVENT_DEVICE_FATAL});
	device.removed = true;
	device.set_interface(std::move(none));
}

}  // namespace

std::vector<DeviceEvent> Devices::update(std::vector<engine::Interface> now) {
	std::vector<DeviceEvent> events;
	interfaces_ = std::move(now);
	if (interfaces_.empty()) return events;
	// The interfaces of a thread's own namespace (setns(2)) say nothing about those of another.
	const std::uint64_t cookie = interfaces_.front().namespace_cookie;
	for (const auto& device : devices_) {
		if (device->removed || device->namespace_cookie != cookie) continue;
		const auto at = std::ranges::find(interfaces_, device->interface_index, &engine::Interface::index);
		if (at == interfaces_.end()) {
			remove(*device, events);
			continue;
		}
		engine::Interface next = *at;
		next.gids = engine::next_gid_table(device->interface()->gids, at->gids);
		change(*device, std::move(next), events);
	}
	return events;
}

std::vector<DeviceEvent> Devices::update(const engine::LinkChange& link) {
	std::vector<DeviceEvent> events;
	for (const auto& device : devices_) {
		if (device->removed || device->interface_index != link.index ||
			device->namespace_cookie != link.namespace_cookie)
			continue;
		if (link.removed) {
			remove(*device, events);
			continue;
		}
		engine::Interface next = *device->interface();
		next.is_up = link.is_up;
		next.is_active = link.is_active;
		change(*device, std::move(next), events);
	}
	return events;
}

std::vector<ibv_device*> Devices::list() {
	std::vector<engine::DeviceCandidate> candidates;
	for (const engine::Interface& interface : interfaces_)
		candidates.push_back({.name = engine::device_name(interface.name),
			.is_loopback = interface.is_loopback,
			.is_usual = interface.is_up || !interface.gids.empty() || find(interface),
			.works = interface.is_active && !interface.gids.empty()});
	std::vector<ibv_device*> listed;
	for (const std::size_t chosen : engine::choose_devices(wanted_, candidates)) {
		const engine::Interface& interface = interfaces_[chosen];
		SoftDevice* const known = find(interface);
		listed.push_back(&(known ? *known : make(interface)).public_device);
	}
	if (!std::exchange(missing_reported_, true)) report_missing(candidates, !listed.empty());
	return listed;
}

// A list of names can be meant for several hosts, so a device that is missing here is an error only
// if the program sees no device at all, or if the name is to be added to the usual devices.
void Devices::report_missing(const std::vector<engine::DeviceCandidate>& candidates, bool some_listed) {
	if (!some_listed && std::ranges::none_of(candidates, &engine::DeviceCandidate::is_usual))
		log::error(
			"there is no device, because no network interface is up; between processes of one host 'ip link set lo up' "
			"is enough");
	std::string known;
	for (const engine::DeviceCandidate& each : candidates) known += (known.empty() ? "" : ", ") + each.name;
	for (const std::string& name : engine::unknown_devices(wanted_, candidates)) {
		const bool is_added = wanted_.find("+" + name) != wanted_.npos;
		const auto report = some_listed && !is_added ? log::warn : log::error;
		report("VERBENA_DEVICES names '%s', and there is no such device; there are: %s", name.c_str(), known.c_str());
	}
}

const SoftDevice* Devices::find(std::string_view name) const {
	const auto named = [name](const auto& device) { return name == device->public_device.name; };
	const auto at = std::find_if(devices_.rbegin(), devices_.rend(), named);
	return at != devices_.rend() ? at->get() : nullptr;
}

bool Devices::has_folder(std::string_view path) const {
	return std::ranges::any_of(
		devices_, [path](const auto& device) { return path == device->public_device.ibdev_path; });
}

void Devices::reset_locks_after_fork() {
	for (const auto& device : devices_) new (&device->interface_mutex) std::mutex;
}

// An interface that was renamed, or has another MAC address, is a new device for those who list it;
// the old device goes on for those who have it open.
SoftDevice* Devices::find(const engine::Interface& interface) const {
	const auto at = std::ranges::find_if(devices_, [&](const auto& device) {
		return below(*device, interface) && !device->removed && device->guid == interface.guid &&
			engine::device_name(interface.name) == device->public_device.name;
	});
	return at != devices_.end() ? at->get() : nullptr;
}

SoftDevice& Devices::make(const engine::Interface& interface) {
	auto device = std::make_unique<SoftDevice>();
	device->guid = interface.guid;
	device->interface_index = interface.index;
	device->namespace_cookie = interface.namespace_cookie;
	device->index = device_number(interface);
	device->set_interface(interface);
	ibv_device& d = device->public_device;
	d._ops._dummy1 = reinterpret_cast<decltype(d._ops._dummy1)>(const_cast<char*>(&our_mark));
	d.node_type = IBV_NODE_CA;
	d.transport_type = IBV_TRANSPORT_IB;
	const std::string name = engine::device_name(interface.name);
	std::snprintf(d.name, sizeof d.name, "%s", name.c_str());
	std::snprintf(d.dev_name, sizeof d.dev_name, "uverbs%d", device->index);
	std::snprintf(d.dev_path, sizeof d.dev_path, "/sys/class/infiniband_verbs/%s", d.dev_name);
	std::snprintf(d.ibdev_path, sizeof d.ibdev_path, "/sys/class/infiniband/%s", name.c_str());
	devices_.push_back(std::move(device));
	return *devices_.back();
}

}  // namespace verbena::verbs
