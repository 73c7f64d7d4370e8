// SPDX-License-Identifier: Apache-2.0
// The question whether a path may name something of ours, asked at each open and stat of the
// program.
//
// Threads: any, also signal handlers and the children of vfork: these functions only read `path`.
#pragma once

namespace verbena::presence {

// True if the path lies below one of the folders in which the kernel shows RDMA devices:
// /dev/infiniband and infiniband or infiniband_verbs below /sys/class and /sys/devices/virtual.
// Doubled slashes are allowed. Links on the way, and "..", are not followed.
bool is_in_our_folders(const char* path) noexcept;

// True if a relative path begins with the end of the name of such a folder, as "infiniband" or
// "class/infiniband" do.
bool may_lead_to_our_folders(const char* path) noexcept;

// Most paths are rejected here, in a few instructions: each comparison reads one character more.
inline bool may_be_ours(const char* path) noexcept {
	if (!path) return false;
	if (path[0] != '/') {
		const bool possible = path[0] == 'i' ? path[1] == 'n'
			: path[0] == 'c'                 ? path[1] == 'l'
			: path[0] == 'd'                 ? path[1] == 'e'
			: path[0] == 's'                 ? path[1] == 'y'
											 : path[0] == 'v' && path[1] == 'i';
		return possible && may_lead_to_our_folders(path);
	}
	if (path[1] == 'd' && path[2] == 'e' && path[3] == 'v' && path[4] == '/') {
		if (path[5] != 'i' && path[5] != '/') return false;
	} else if (path[1] == 's' && path[2] == 'y' && path[3] == 's' && path[4] == '/') {
		if (path[5] != 'c' && path[5] != 'd' && path[5] != '/') return false;
	} else if (path[1] != '/') {
		return false;
	}
	return is_in_our_folders(path);
}

}  // namespace verbena::presence
