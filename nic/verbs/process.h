// Everything that exists once in a process: the engine, the list of devices, and what a fork does to them. All
// process-wide state of the NIC is here.
#pragma once

#include <expected>
#include <string_view>

#include "nic/verbs/objects.h"

namespace verbena::verbs {

// The engine, started at the first call. Errors are errno values.
std::expected<engine::Engine*, int> process_engine();

// Is this address of some interface of this host (network namespace)?
bool is_local_address(const std::uint8_t (&gid)[16]);

// Is this the folder of one of our devices in sysfs, as ibv_device::ibdev_path says it? There is none.
bool is_our_folder(std::string_view path);

// What this process's adapter has counted, on all devices together; nothing before the engine has started.
transport::Counters process_counters();

// librdmacm, if `caller` lies in it, finds rdma_cm here.
void serve_librdmacm(void* caller);

// Contexts alive in this process, so that a forked child can mark them dead.
void add_context(SoftContext&);
void remove_context(SoftContext&);

}  // namespace verbena::verbs
