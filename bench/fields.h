// A table of any experiment as rows of named text fields.
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

// Reads JSON or CSV (bench/table/table.h). Lists in a row are left out.
std::expected<std::vector<Fields>, std::string> read_rows(std::string_view text);

}  // namespace verbena::bench
