#include "base/private_folder.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbena {

std::vector<std::string> private_folders() {
	std::vector<std::string> folders;
	if (const char* runtime = secure_getenv("XDG_RUNTIME_DIR"); runtime && *runtime == '/')
		folders.push_back(std::string(runtime) + "/verbena");
	const std::string user = "verbena-" + std::to_string(geteuid());
	folders.push_back("/dev/shm/" + user);
	folders.push_back("/tmp/" + user);
	return folders;
}

// Another user could have made the folder. So could the owner of a parent that another user owns,
// who could also exchange it.
int open_private_folder(const std::string& path) {
	struct stat parent;
	const std::string above = path.substr(0, path.rfind('/'));
	if (stat(above.c_str(), &parent) != 0) return -1;
	if (parent.st_uid != geteuid() && parent.st_uid != 0) return -1;
	if (parent.st_uid != geteuid() && !(parent.st_mode & S_ISVTX)) return -1;
	if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return -1;
	const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat status;
	if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() && (status.st_mode & 077) == 0) return fd;
	if (fd >= 0) close(fd);
	return -1;
}

}  // namespace verbena
