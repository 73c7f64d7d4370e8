// SPDX-License-Identifier: Apache-2.0
// The functions and lines of addresses in programs and libraries, as far as these have symbols and
// debugging information (libdw).
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

struct Dwfl;
struct Dwfl_Module;

namespace verbena::tools {

struct Place {
	std::string function;  // empty: unknown
	std::string file;  // the source, as in the command of the compiler; empty: unknown
	int line = 0;
};

class Symbols {
public:
	Symbols();
	~Symbols();
	// The functions at an offset from the address at which the file `module` was loaded, innermost
	// first. There is at least one, which may be unknown.
	std::vector<Place> find(const std::string& module, std::uint64_t offset);

private:
	Dwfl_Module* open(const std::string& module);

	struct End {
		void operator()(Dwfl*) const;
	};
	std::unique_ptr<Dwfl, End> session_;
	std::map<std::string, Dwfl_Module*> modules_;  // null: cannot be read
};

}  // namespace verbena::tools
