// SPDX-License-Identifier: Apache-2.0
// Standard input, output and error of the programs of this project, when they are closed, full or
// read by no one.
//
// Threads: write_error() from any; the others from the main thread.
// Errors: no function throws.
#pragma once

#include <string>
#include <string_view>

namespace verbena {

// Opens /dev/null at each of the descriptors 0 to 2 that is closed, so that no file or socket of
// the program gets its number. Using it is an error, EBADF, as before.
void open_standard_descriptors() noexcept;

// Writes all of it to standard error. If that is full, or has no reader, the rest is lost, and no
// SIGPIPE ends the program.
void write_error(std::string_view text) noexcept;

// Writes what standard output has buffered. Returns the reason if any byte since the start of the
// program could not be written, such as "No space left on device"; otherwise nothing.
std::string flush_output() noexcept;

}  // namespace verbena
