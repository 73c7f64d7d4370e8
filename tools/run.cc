// `verbena run -- PROGRAM [ARGUMENTS]` runs a program with the software NIC preloaded. This file
// also has pass_through(), which takes the lines of `run` and `report` before the parser.
//
// Errors: exit code 127 if libverbena-nic.so or the program cannot be found or started, 2 if no
//   program is named; otherwise the exit code is the program's.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bench/rcud/launch.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

// Returns the path of libverbena-nic.so, which is beside this executable (in a build folder) or in
// ../lib (installed); empty if it is in neither place.
std::string find_nic() {
	const auto folder = std::filesystem::path(rcud::own_executable()).parent_path();
	for (const auto& candidate : {folder / "libverbena-nic.so", folder.parent_path() / "lib" / "libverbena-nic.so"})
		if (std::filesystem::exists(candidate)) return candidate.string();
	return "";
}

// Replaces this process by the program; returns, with an exit code, only on failure.
int run(const std::vector<std::string>& command) {
	const std::string nic = find_nic();
	if (nic.empty())
		return complain(
			"cannot find libverbena-nic.so beside this program or in ../lib: build it ('make build') or install it",
			cannot_run);
	const char* before = std::getenv("LD_PRELOAD");
	const std::string preload = before == nullptr || *before == '\0' ? nic : nic + ':' + before;
	setenv("LD_PRELOAD", preload.c_str(), 1);

	std::vector<char*> argv;
	for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
	argv.push_back(nullptr);
	execvp(argv[0], argv.data());
	return complain("cannot run " + command[0] + ": " + std::strerror(errno), cannot_run);
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
	CLI::App* sub = app.add_subcommand("run", "Run a program on the software NIC");
	sub->footer(
		"Examples:\n  verbena run -- ibv_devices\n  verbena run -- ibv_rc_pingpong -g 0\n"
		"The exit code is the program's; 127 if it could not be started.");
	// The parser sees only --help and wrong lines, because pass_through() takes each line that
	// names a program. With this option --help describes the program, and a line without one is
	// refused.
	sub->add_option("command", "The program and its arguments, after --")->required()->type_name("PROGRAM [ARGUMENTS]");
	sub->callback([&action] {
		action = [] {
			return complain("'run' has no options of its own: use verbena run -- PROGRAM [ARGUMENTS]", usage);
		};
	});
}

bool pass_through(const std::vector<std::string>& words, Action& action) {
	if (!words.empty() && words[0] == "report") {
		action = [arguments = std::vector(words.begin() + 1, words.end())] { return report(arguments); };
		return true;
	}
	if (words.size() < 2 || words[0] != "run") return false;
	const std::size_t program = words[1] == "--" ? 2 : 1;
	if (program == words.size() || (program == 1 && words[1].starts_with('-'))) return false;
	action = [command = std::vector(words.begin() + static_cast<std::ptrdiff_t>(program), words.end())] {
		return run(command);
	};
	return true;
}

}  // namespace verbena::tools
