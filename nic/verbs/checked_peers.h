// SPDX-License-Identifier: Apache-2.0
// Compares the attributes of this process's connections with those of their other ends, where these
// are on this host.
//
// Threads: the checker's own one.
#pragma once

namespace verbena::verbs {

// Asks the processes at the other ends (nic/status), for connections that were not compared yet.
void compare_with_peers();

}  // namespace verbena::verbs
