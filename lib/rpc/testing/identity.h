// SPDX-License-Identifier: Apache-2.0
// Identity: a configuration folder of the test's own, in which both ends find one user's identity.
//
// Owns: the folder, which the destructor removes.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace rpc_test {

// Sets XDG_CONFIG_HOME for this process and those that it starts.
class Identity {
public:
	Identity() : folder_(std::filesystem::temp_directory_path() / ("rpc-test-" + std::to_string(getpid()))) {
		std::filesystem::create_directory(folder_);
		std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
		setenv("XDG_CONFIG_HOME", folder_.c_str(), 1);
	}
	~Identity() { std::filesystem::remove_all(folder_); }

private:
	std::filesystem::path folder_;
};

}  // namespace rpc_test
