// SPDX-License-Identifier: Apache-2.0
// A tree as folders and files on disk, in a private folder of the user, so that readdir and every
// call that is relative to an open folder works by itself.
//
// Threads: any, also of other processes: a snapshot is built aside and renamed to its place.
// Owns: nothing. A snapshot stays on disk, because other processes of the user may use it; making a
//   new one removes old ones.
// Errors: an empty path if no folder can be made or a folder of that name is not private.
// Invariants: a snapshot's name contains the hash of its tree, and its content never changes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nic/presence/tree.h"

namespace verbena::presence {

// The folders that may hold the user's snapshots, best first.
std::vector<std::string> snapshot_homes();

// Returns the path of the snapshot of `tree`, below the first of `homes` where it exists or can be
// made.
std::string make_snapshot(const Tree& tree, const std::vector<std::string>& homes);

// The path inside of a snapshot ("/sys/class/..."), or empty if `path` is in none of `homes`.
std::string_view inside_snapshot(std::string_view path, const std::vector<std::string>& homes);

}  // namespace verbena::presence
