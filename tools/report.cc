// SPDX-License-Identifier: Apache-2.0
// verbena report ...: replaces this process by the report package, which is written in Python.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bench/far_end/launch.h"
#include "tools/command_line.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

// The folder of the report package: VERBENA_REPORT, or `report` beside the build folder, or that of
// the installation that this program belongs to. The last one need not exist.
std::filesystem::path find_package() {
	if (const char* const named = std::getenv("VERBENA_REPORT"); named != nullptr && *named != '\0') return named;
	const auto folder = std::filesystem::path(bench::own_executable()).parent_path();
	const auto beside_the_build = folder.parent_path() / "report";
	if (std::filesystem::exists(beside_the_build / "__main__.py")) return beside_the_build;
	return (folder / VERBENA_BIN_TO_DATA / "report").lexically_normal();
}

// Debian's interpreter, because only that one finds Debian's matplotlib. It must also be called by
// its path: called `python3`, it takes its modules from the first python3 in PATH, which may be one
// of a virtual environment.
constexpr const char* interpreter = "/usr/bin/python3";

// Returns, with an exit code, only on failure. The code is never 1, which means a regression.
int report(const std::vector<std::string>& arguments) {
	const std::filesystem::path package = find_package();
	if (!std::filesystem::exists(package / "__main__.py"))
		return complain("cannot find the report package in " + package.string() +
				": install it (component python, Debian package python3-verbena), or set VERBENA_REPORT to its folder",
			usage);

	const std::string path = package.string();
	std::vector<char*> argv{const_cast<char*>(interpreter), const_cast<char*>(path.c_str())};
	for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
	argv.push_back(nullptr);
	// The report asks this program to judge the rows.
	setenv("VERBENA_PROGRAM", bench::own_executable().c_str(), 1);
	execv(interpreter, argv.data());
	return complain(std::string("cannot run ") + interpreter + ": " + std::strerror(errno), usage);
}

}  // namespace

CLI::App* add_report(CLI::App& app, Action& action, const ProgramWords& program) {
	CLI::App* sub = add_command(app, "report", "Write a page with plots, tables and a verdict on each claim");
	sub->allow_extras();  // all options are the package's, also --help
	sub->callback([&] { action = [&program] { return report(program); }; });
	return sub;
}

}  // namespace verbena::tools
