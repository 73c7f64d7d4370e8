// SPDX-License-Identifier: Apache-2.0
// The devices of this process, and what the kernel last reported of the interfaces below them.
//
// Threads: every method under the process's mutex (process.cc). SoftDevice::interface() from any
//   thread.
// Lifetime: a device is never removed, because programs hold pointers to it.
// Invariants: a device belongs to one interface of one network namespace, by its index. After the
//   interface was removed, the device has no GID and its port is DOWN, for ever.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nic/engine/device_choice.h"
#include "nic/verbs/objects.h"

namespace verbena::verbs {

// An event for every program that has the device open.
struct DeviceEvent {
	const SoftDevice* device;
	ibv_event_type type;  // PORT_ACTIVE, PORT_ERR, GID_CHANGE or DEVICE_FATAL
};

class Devices {
public:
	// `wanted` is the value of VERBENA_DEVICES (engine/device_choice.h).
	explicit Devices(std::string wanted) : wanted_(std::move(wanted)) {}

	// Takes in what the kernel reports of all interfaces of a namespace. Returns what changed for
	// the devices that there were.
	std::vector<DeviceEvent> update(std::vector<engine::Interface> now);
	// Takes in the change of one link, which update() may be too late to see.
	std::vector<DeviceEvent> update(const engine::LinkChange&);

	// The devices to list, by the interfaces of the last update(). Makes those that are new.
	std::vector<ibv_device*> list();
	// The interfaces of the last update(), also those that are not listed.
	const std::vector<engine::Interface>& interfaces() const { return interfaces_; }

	bool has_folder(std::string_view ibdev_path) const;
	// The newest device of this name, or null.
	const SoftDevice* find(std::string_view name) const;
	// In the child of a fork, where no other thread holds a device's lock.
	void reset_locks_after_fork();

private:
	void report_missing(const std::vector<engine::DeviceCandidate>&, bool some_listed);
	SoftDevice* find(const engine::Interface&) const;
	SoftDevice& make(const engine::Interface&);

	const std::string wanted_;
	bool missing_reported_ = false;
	std::vector<engine::Interface> interfaces_;
	std::vector<std::unique_ptr<SoftDevice>> devices_;
};

}  // namespace verbena::verbs
