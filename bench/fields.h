// Reads a table of any experiment as rows of named text fields: CSV (comment lines begin with #),
// or a JSON object whose "rows" is a list of objects.
//
// Threads: pure functions.
// Errors: a message that names the line and what is wrong there.
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::bench {

using Fields = std::map<std::string, std::string, std::less<>>;  // column to text

// Reads JSON if the first character is '{', else CSV. JSON lists in a row are left out.
std::expected<std::vector<Fields>, std::string> read_rows(std::string_view text);

// Removes one CSV record from the front of `text` and returns its fields. A quoted field may hold
// commas, doubled quotes and line breaks (RFC 4180).
std::expected<std::vector<std::string>, std::string> take_record(std::string_view& text);

}  // namespace verbena::bench
