// SPDX-License-Identifier: Apache-2.0
// Folders on the disk.
//
// Threads: any.
#pragma once

#include <string>

namespace verbena::kv {

std::string parent_of(const std::string& folder);
// Writes the names that a folder has to the disk. Returns 0 or an errno. A folder that this process
// may not read, and a file system that does not synchronise folders, are no error.
int synchronise_folder(const std::string& name);

}  // namespace verbena::kv
