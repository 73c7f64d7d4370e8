// Owns a file descriptor, or none if `fd` is negative.
#pragma once

#include <unistd.h>

namespace verbena::tools {

class OpenDescriptor {
public:
	explicit OpenDescriptor(int fd) : fd_(fd) {}
	~OpenDescriptor() {
		if (fd_ >= 0) close(fd_);
	}
	OpenDescriptor(const OpenDescriptor&) = delete;
	OpenDescriptor& operator=(const OpenDescriptor&) = delete;
	int get() const { return fd_; }
	bool good() const { return fd_ >= 0; }

private:
	int fd_;
};

}  // namespace verbena::tools
