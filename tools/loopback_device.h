// SPDX-License-Identifier: Apache-2.0
// The loopback's device of the software NIC, vb_lo, which most programs do not see
// (docs/decisions/0023). Our programs see it, because lib/verbs prefers it between two processes of
// one host (device.h).
#pragma once

#include <cstdlib>

namespace verbena::tools {

// Lists vb_lo in this process and in those that it starts, unless the user has chosen the devices.
// To be called at the start of main(), before a verb and before a thread.
inline void list_loopback_device() { setenv("VERBENA_DEVICES", "+vb_lo", 0); }

}  // namespace verbena::tools
