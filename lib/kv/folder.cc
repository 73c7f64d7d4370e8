// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

namespace verbena::kv {

std::string parent_of(const std::string& folder) {
	const std::filesystem::path whole = std::filesystem::absolute(folder / std::filesystem::path()).lexically_normal();
	return whole.parent_path().parent_path();
}

int synchronise_folder(const std::string& name) {
	const int file = ::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error = file < 0 || fsync(file) != 0 ? errno : 0;
	if (file >= 0) ::close(file);
	if (error == EACCES || error == EINVAL) error = 0;
	return error;
}

}  // namespace verbena::kv
