// SPDX-License-Identifier: Apache-2.0
// The folders in which the loader looks for a library, in its order, for a search that must go on
// after the first match: dlopen() by name always takes that one, which may be our own.
//
// Threads: any.
// Errors: a file or pattern that cannot be read adds no folder.
#pragma once

#include <string>
#include <vector>

struct link_map;

namespace verbena::verbs {

// For a library that the object `from` opens: LD_LIBRARY_PATH and the object's own run path, then
// the folders of /etc/ld.so.conf, then the system's. A folder may be named twice or not exist.
std::vector<std::string> library_folders(link_map& from);

// The folders that a file in the format of ld.so.conf(5) names, with those of the files that it
// includes.
std::vector<std::string> configured_folders(const std::string& file);

}  // namespace verbena::verbs
