// SPDX-License-Identifier: Apache-2.0
#include "base/private_folder.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace verbena {
namespace {

// The user's folder for files that can be made again, or an empty path.
std::string cache_folder() {
	if (const char* cache = secure_getenv("XDG_CACHE_HOME"); cache && *cache == '/') return cache;
	if (const char* home = secure_getenv("HOME"); home && *home == '/') return std::string(home) + "/.cache";
	return {};
}

std::string parent_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Another user who owns a folder could exchange everything in it, unless the folder is sticky.
bool is_safe_parent(const std::string& path) {
	struct stat status;
	if (stat(path.c_str(), &status) != 0) return false;
	return status.st_uid == geteuid() || (status.st_uid == 0 && (status.st_mode & S_ISVTX));
}

bool make_folder(const std::string& path) { return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST; }

}  // namespace

std::vector<std::string> private_folders() {
	std::vector<std::string> folders;
	const std::string id = std::to_string(geteuid()), user = "verbena-" + id;
	if (const char* runtime = secure_getenv("XDG_RUNTIME_DIR"); runtime && *runtime == '/')
		folders.push_back(std::string(runtime) + "/verbena");
	if (std::string session = "/run/user/" + id + "/verbena"; folders.empty() || folders.front() != session)
		folders.push_back(std::move(session));
	folders.push_back("/dev/shm/" + user);
	folders.push_back("/tmp/" + user);
	if (const std::string cache = cache_folder(); !cache.empty()) folders.push_back(cache + "/verbena");
	return folders;
}

int open_private_folder(const std::string& path) {
	const std::string parent = parent_of(path);
	if (parent == cache_folder() && access(parent.c_str(), F_OK) != 0 && is_safe_parent(parent_of(parent)))
		make_folder(parent);
	if (!is_safe_parent(parent) || !make_folder(path)) return -1;
	const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;
	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) == 0) return fd;
	if (fd >= 0) close(fd);
	return -1;
}

std::optional<ForeignFolder> foreign_folder(const std::vector<std::string>& folders, const std::string& used_path) {
	for (const std::string& path : folders) {
		if (!used_path.empty() && used_path.starts_with(path + '/')) return std::nullopt;
		struct stat status;
		if (lstat(path.c_str(), &status) == 0 && status.st_uid != geteuid()) return ForeignFolder{path, status.st_uid};
	}
	return std::nullopt;
}

}  // namespace verbena
