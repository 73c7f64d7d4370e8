// verbena report ...: replaces this process by the report package, which is written in Python.
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "bench/far_end/launch.h"
#include "tools/commands.h"

namespace verbena::tools {
namespace {

// Returns, with an exit code, only on failure. The code is never 1, which means a regression.
int report(const std::vector<std::string>& arguments) {
	const char* named = std::getenv("VERBENA_REPORT");
	const auto folder = std::filesystem::path(bench::own_executable()).parent_path().parent_path();
	const std::filesystem::path package = named != nullptr ? std::filesystem::path(named) : folder / "report";
	if (!std::filesystem::exists(package / "__main__.py"))
		return complain(
			"cannot find the report package in " + package.string() + ": set VERBENA_REPORT to its folder", usage);

	const std::string path = package.string();
	std::vector<char*> argv{const_cast<char*>("python3"), const_cast<char*>(path.c_str())};
	for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
	argv.push_back(nullptr);
	// The report asks this program to judge the rows.
	setenv("VERBENA_PROGRAM", bench::own_executable().c_str(), 1);
	// Debian's interpreter by its path, because only that one finds Debian's matplotlib.
	execv("/usr/bin/python3", argv.data());
	return complain(std::string("cannot run /usr/bin/python3: ") + std::strerror(errno), usage);
}

}  // namespace

CLI::App* add_report(CLI::App& app, Action& action, const ProgramWords& program) {
	CLI::App* sub = app.add_subcommand("report", "Write a page with plots, tables and a verdict on each claim");
	sub->allow_extras();  // all options are the package's, also --help
	sub->callback([&] { action = [&program] { return report(program); }; });
	return sub;
}

}  // namespace verbena::tools
