// SPDX-License-Identifier: Apache-2.0
// Decides whether the NIC can be in a program, and prepares the environment in which it is.
//
// Threads: any; environment_for() reads this process's environment.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/program_file.h"

namespace verbena::tools {

// The reason why a program cannot be run on the NIC, and the way out; each is part of a sentence.
struct Refusal {
	std::string reason;
	std::string advice;
	int exit_code;  // as shells use it: 127 if there is no such program, otherwise 126
};

// Nothing if the program can be run with the NIC in it.
std::optional<Refusal> refusal_of(const Program& program);

// The runtimes of sanitizers that the program is linked to. They check that they are loaded before
// every other library.
std::vector<std::string> sanitizers_of(const Program& program);

// The path of libverbena-nic.so, which is beside this executable (in a build folder) or in
// the folder of libraries of the same installation. The error is a message with the way out.
std::expected<std::string, std::string> find_nic();

// The value of LD_PRELOAD: runtimes of sanitizers, the NIC, and then the libraries of `before`, the
// value so far. No library is named twice.
std::string preload_list(const std::vector<std::string>& sanitizers, const std::string& nic, std::string_view before);

// The value of LD_LIBRARY_PATH with `folder` in front of `before`, the value so far.
std::string library_path(const std::string& folder, std::string_view before);

// The value of TSAN_OPTIONS that makes the thread sanitizer read `file`, unless `before`, the value
// so far, names another file of suppressions.
std::string sanitizer_options(const std::string& file, std::string_view before);

// The variables that put the NIC at `nic` into the program.
std::vector<std::pair<std::string, std::string>> environment_for(const Program& program, const std::string& nic);

}  // namespace verbena::tools
