// SPDX-License-Identifier: Apache-2.0
// The export that says where sysfs is mounted, and the reading of one of its files.
//
// Threads: any.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "nic/verbs/newer_verbs.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {

int read_file(const char* folder, const char* name, char* buffer, std::size_t size) {
	const int fd = open((std::string(folder) + '/' + name).c_str(), O_RDONLY | O_CLOEXEC);
	if (fd < 0) return -1;
	const ssize_t length = read(fd, buffer, size);
	const int read_errno = errno;
	close(fd);
	errno = read_errno;
	if (length <= 0) return static_cast<int>(length);

	std::size_t end = static_cast<std::size_t>(length);
	if (buffer[end - 1] == '\n') --end;
	if (end == size) {
		return log::refuse(EOVERFLOW, "ibv_read_sysfs_file: %s/%s does not fit into %zu bytes", folder, name, size), -1;
	}
	buffer[end] = '\0';
	return static_cast<int>(end);
}

}  // namespace verbena::verbs

extern "C" [[gnu::visibility("default")]] const char* ibv_get_sysfs_path() {
	// Never destroyed: librdmacm may call this from a destructor.
	static const std::string& path = *[] {
		const char* const named = secure_getenv("SYSFS_PATH");
		auto* const made = new std::string(named ? named : "/sys");
		while (made->ends_with('/')) made->pop_back();
		return made;
	}();
	return path.c_str();
}
