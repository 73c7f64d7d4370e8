// Writes a file whole or not at all, with its mode from the first moment on: for keys and
// certificates.
//
// Threads: thread-safe, also between processes. Several may write the same file; a reader sees one
//   of them, never a part.
// Errors: one sentence that names the file.
#pragma once

#include <sys/types.h>

#include <expected>
#include <string>

namespace verbena::channel {

struct WriteOptions {
	mode_t mode = 0600;
	bool replace = false;  // false: an existing file stays as it is
};

// Returns true if it wrote the file, false if the file existed. The folder must exist; no temporary
// file is left in it.
std::expected<bool, std::string> write_whole(
	const std::string& path, const std::string& text, WriteOptions options = {});

}  // namespace verbena::channel
