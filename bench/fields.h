// A table as text: rows of named fields, from CSV (comments begin with #, quoted fields may hold anything) or from JSON
// with "rows".
#pragma once

#include <expected>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace verbena::bench {

using Fields = std::map<std::string, std::string, std::less<>>;

// The error says the line, and what is wrong there.
std::expected<std::vector<Fields>, std::string> read_rows(std::string_view text);

// Takes one CSV record off the text. A quoted field may hold commas, doubled quotes and line breaks.
std::expected<std::vector<std::string>, std::string> take_record(std::string_view& text);

}  // namespace verbena::bench
