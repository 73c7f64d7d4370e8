// The checks of everything that the NIC needs of a machine: system calls, names, ports and limits.
//
// Threads: the main thread only.
// Owns: nothing that outlasts a call; what a check opens it closes again.
#pragma once

#include "tools/finding.h"

namespace verbena::tools {

// The devices that this process sees, the UDP port, buffers, limits, and the processor.
Finding check_devices();
Findings check_network_and_limits();

// The system calls that the NIC and the library use: a problem if the NIC cannot work without one,
// a note that says the cost if it can.
Findings check_system_calls();

}  // namespace verbena::tools
