// The subcommands of `verbena`. Each add_* declares its options on the program's parser and leaves what to do in
// `action`, which main() runs after parsing; its value is the exit code.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace verbena::tools {

// 127: `verbena run` could not start the program, as shells say it.
enum Exit : int { good = 0, failed = 1, usage = 2, impossible_data = 3, cannot_run = 127 };

using Action = std::function<int()>;

void add_run(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);
void add_bench_rcud(CLI::App& bench, Action& action, const std::string& command_line);
void add_bench_connect(CLI::App& bench, Action& action, const std::string& command_line);
void add_bench_scale(CLI::App& bench, Action& action, const std::string& command_line);
void add_bench_rpc(CLI::App& bench, Action& action, const std::string& command_line);
void add_bench_kv(CLI::App& bench, Action& action, const std::string& command_line);
void add_check(CLI::App& app, Action& action);
void add_report(CLI::App& app);
void add_certs(CLI::App& app, Action& action);

// `run` and `report` hand their words over to another program as they are, so no parser may touch them. True if this
// was one of them; false leaves the line (help, mistakes) to the parser.
bool pass_through(const std::vector<std::string>& words, Action& action);
int report(const std::vector<std::string>& arguments);

// "verbena: message" on standard error; gives the code back.
int complain(const std::string& message, int code = failed);

// Writes to a file, or to standard output for "-". The error names the file.
bool write_out(const std::string& path, const std::string& text, std::string& error);

}  // namespace verbena::tools
