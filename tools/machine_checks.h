// SPDX-License-Identifier: Apache-2.0
// The checks of everything that the NIC needs of a machine: system calls, names, ports and limits.
//
// Threads: the main thread only.
// Owns: nothing that outlasts a call; what a check opens it closes again.
#pragma once

#include "tools/finding.h"

namespace verbena::tools {

// The devices that this process sees and their MTU; the UDP port, buffers, limits, the processor.
Finding check_devices();
Findings check_network_and_limits();

// The system calls that the NIC and the library use: a problem if the NIC cannot work without one,
// a note that says the cost if it can.
Findings check_system_calls();

// The restrictions of containers: filters, /dev/shm, namespaces, locked memory. It forks, so it is
// to be called before a device is open.
Findings check_confinement();

}  // namespace verbena::tools
