// SPDX-License-Identifier: Apache-2.0
// The command line of a program: its options, --version, and messages that name what a wrong word
// may have meant.
//
//     CommandLine app("rc_server", "Accepts rc_client by rdma_cm and reports each transfer.");
//     app.add_option("port", port, "Port to listen on");
//     if (const auto code = app.read(argc, argv)) return *code;
//
// Parsers are made and run in command_line.cc alone, so that less of CLI11's code is compiled for
// each program.
//
// Threads: the main thread only.
// Errors: the message goes to standard error, and the exit code is 2.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace verbena::tools {

std::string version_of(const std::string& program);

class CommandLine : public CLI::App {
public:
	CommandLine(const std::string& name, const std::string& description);
	~CommandLine() override;

	// Adds --version and reads the line. Returns the exit code if the program ends now: 0 after
	// --help and --version, 2 after a mistake.
	std::optional<int> read(int argc, char** argv);
	// The same for the words behind the program's name.
	std::optional<int> read(std::vector<std::string> words);
};

CLI::App* add_command(CLI::App& app, const std::string& name, const std::string& description);

}  // namespace verbena::tools
