// SPDX-License-Identifier: Apache-2.0
// The part of an ELF executable file that decides which libraries can be preloaded into it: for
// which machine it is, its loader (program interpreter), and the libraries that it needs.
//
// Threads: any.
// Errors: read_elf() takes any file, also a truncated or hostile one: each offset and size is
//   checked against the file, and lists and texts have limits.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

namespace verbena::tools {

struct ElfFile {
	std::uint16_t type = 0;  // ET_EXEC, ET_DYN, ...
	std::uint16_t machine = 0;  // EM_X86_64, ...
	bool is_64_bit = false;
	bool is_little_endian = false;
	// The rest is read only for files of our own machine.
	std::string interpreter;  // path of the loader; empty: the kernel starts the program itself
	bool dynamic = false;  // has a dynamic section
	std::string soname;
	std::vector<std::string> needed;  // DT_NEEDED: names of libraries
};

// True if the file is for the machine that this program was built for.
bool is_for_this_machine(const ElfFile& file);

// "32-bit Arm", "x86-64", ...; the number of a machine that has no name here.
std::string machine_name(const ElfFile& file);

// Reads the ELF file that `fd` is open for; moves no file position. The error is a text: "is not an
// ELF file", "is truncated", ...
std::expected<ElfFile, std::string> read_elf(int fd);

}  // namespace verbena::tools
