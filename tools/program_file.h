// SPDX-License-Identifier: Apache-2.0
// The file that a command line runs, found and read as execvp(3) and the kernel do it: along PATH,
// and through the interpreters of scripts (`#!`, also `#!/usr/bin/env NAME`).
//
// Threads: any.
// Errors: look() never fails; a Program says how far it came.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/elf_file.h"

namespace verbena::tools {

struct Program {
	enum class State {
		readable,  // `elf` is the file that the kernel will load
		unreadable,  // it can be executed, but not looked at
		not_found,  // no such file
		not_executable,  // a file without permission, a folder, or not a program
	};
	State state = State::not_found;
	std::string name;  // the program's name in the command line or in the script's first line
	std::string path;  // the file; empty if not found
	std::string problem;  // the reason why it cannot be executed or looked at; empty if readable
	std::vector<std::string> scripts;  // the scripts that led to this program, the first one first
	ElfFile elf;

	// Privileges that the kernel adds when it starts the file, as "set-user-ID", "set-group-ID" or
	// "file capabilities". The loader then ignores LD_PRELOAD. Empty if it adds none for this user.
	std::string privileges;
};

// Looks at the program that these words run: a program's name or path, and its arguments.
Program look(std::span<const std::string> command);

// The contents of the extended attribute security.capability grant a capability.
bool grants_capabilities(std::span<const std::byte> attribute);

}  // namespace verbena::tools
