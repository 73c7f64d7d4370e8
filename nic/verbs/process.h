// SPDX-License-Identifier: Apache-2.0
// The process-wide state of the NIC: the engine, the devices, the open contexts, the rdma_cm
// emulation, and the handlers for fork and exit.
//
// Threads: any, but never under the engine's lock. One mutex inside guards the state.
// Lifetime: created at first use and never destroyed, because programs call verbs from their own
//   destructors and exit handlers. In a fork's child the contexts that it inherited fail, and the
//   next device that it opens starts a new engine.
#pragma once

#include <expected>
#include <functional>
#include <string_view>

#include "nic/verbs/counters.h"
#include "nic/verbs/objects.h"

namespace verbena::verbs {

// The engine; the first call starts it. Errors are errno values.
std::expected<engine::Engine*, int> process_engine();

// True if an interface of this host (network namespace) has this address. Before the engine runs,
// and where the kernel refuses to report changes, the list of interfaces may be 0.1 s old.
bool is_local_address(const std::uint8_t (&gid)[16]);

// True if `path` is the ibv_device::ibdev_path of one of our devices.
bool is_our_folder(std::string_view path);

// Calls `visit` with each of our devices that exists now (or 0.1 s ago), under the mutex.
void visit_devices(const std::function<void(const SoftDevice&)>& visit);

// The newest of our devices with this name, or null. A device is never destroyed.
const SoftDevice* find_device(std::string_view name);
// The values for a device's counters now; zero before the engine starts.
CounterValues counter_values(const SoftDevice&);
// The program has opened a counter's file: from now on the engine keeps its text current.
void watch_counters();

// If the code address `caller` lies in librdmacm, redirects to this process the calls by which
// librdmacm uses the kernel's rdma_cm (nic/ucma/interpose.h).
void serve_librdmacm(void* caller);

// Makes the state of the devices' interfaces current, where the engine cannot report their changes:
// then they are read at most ten times a second. For queries.
void refresh_devices();

// Add to and remove from the list of this process's open contexts, which a fork's child marks dead.
void add_context(SoftContext&);
void remove_context(SoftContext&);

}  // namespace verbena::verbs
