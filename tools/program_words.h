// SPDX-License-Identifier: Apache-2.0
// Some subcommands end in the words of another program: `run --log info -- ls -l`. These words are
// cut off before the parser sees the line, so that no option of the other program is taken for one
// of ours.
//
// Threads: the main thread only.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace verbena::tools {

// Removes the words of the other program from a line and returns them. The options of `sub` begin
// at words[first]. The program begins after "--", or at the first word that is neither an option
// nor the value of an option of `sub`; at once if `sub` allows extras.
std::vector<std::string> cut_program_words(const CLI::App& sub, std::vector<std::string>& words, std::size_t first);

}  // namespace verbena::tools
