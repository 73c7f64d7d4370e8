// Files that appear whole or not at all, with their mode from the first moment on: keys, certificates. Any number of
// processes may make the same one; a reader sees one of them, never half.
#pragma once

#include <sys/types.h>

#include <expected>
#include <string>

namespace verbena::channel {

struct WriteOptions {
	mode_t mode = 0600;
	bool replace = false;  // otherwise a file that is there already stays as it is
};

// True if the file is ours now; false if it was there. The folder must be there, and keeps nothing else of this.
std::expected<bool, std::string> write_whole(
	const std::string& path, const std::string& text, WriteOptions options = {});

}  // namespace verbena::channel
