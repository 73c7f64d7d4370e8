// SPDX-License-Identifier: Apache-2.0
// Files of keys, passwords and certificates: written whole or not at all, with their mode from the
// first moment on, and read only if no other user can.
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

// Reads the file of a private key or, as `noun` says, another secret, of 64 KiB at most. As
// PostgreSQL does, it refuses a file that another user than this process's or root owns, one of
// this user's that others may access (0600 is the most), and one of root's that others than its
// group may read (0640 is the most). Error: one sentence that says what to do.
std::expected<std::string, std::string> read_secret_file(const std::string& path, const std::string& noun = "key");

}  // namespace verbena::channel
