// SPDX-License-Identifier: Apache-2.0
// Reads the text of a table from a file or a pipe, and text from a file as it may be printed.
//
// Threads: any.
// Errors: one sentence, which does not name the file.
#pragma once

#include <expected>
#include <string>
#include <string_view>

namespace verbena::bench {

// Reads at most bytes_max (limits.h). "-" is standard input; other paths are regular files or
// pipes.
std::expected<std::string, std::string> text_of_file(const std::string& path);

// The text without what would command a terminal: control characters, and bytes that are no UTF-8,
// stand as \x1b.
std::string printable(std::string_view text);

}  // namespace verbena::bench
