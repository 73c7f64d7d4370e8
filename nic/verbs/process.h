// The process-wide state of the NIC: the engine, the devices, the open contexts, the rdma_cm
// emulation, and the handlers for fork and exit.
//
// Threads: any, but never under the engine's lock. One mutex inside guards the state.
// Lifetime: created at first use and never destroyed, because programs call verbs from their own
//   destructors and exit handlers. In a fork's child the contexts that it inherited fail, and the
//   next device that it opens starts a new engine.
#pragma once

#include <expected>
#include <string_view>

#include "nic/verbs/objects.h"

namespace verbena::verbs {

// The engine; the first call starts it. Errors are errno values.
std::expected<engine::Engine*, int> process_engine();

// True if an interface of this host (network namespace) has this address. The list of interfaces
// may be 0.1 s old.
bool is_local_address(const std::uint8_t (&gid)[16]);

// True if `path` is the ibv_device::ibdev_path of one of our devices. No such folder exists in the
// file system; sysfs.cc serves its files.
bool is_our_folder(std::string_view path);

// The counters of this process's adapter, of all devices together; zero before the engine starts.
transport::Counters process_counters();

// If the code address `caller` lies in librdmacm, redirects to this process the calls by which
// librdmacm uses the kernel's rdma_cm (nic/ucma/interpose.h).
void serve_librdmacm(void* caller);

// Add to and remove from the list of this process's open contexts, which a fork's child marks dead.
void add_context(SoftContext&);
void remove_context(SoftContext&);

}  // namespace verbena::verbs
