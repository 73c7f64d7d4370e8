// SPDX-License-Identifier: Apache-2.0
// The subcommands of `verbena`, and what they share: exit codes and error messages.
//
// Each add_*() declares its subcommand's options on the program's parser. If the user chose the
// subcommand, parsing sets `action`, which main() then runs; its value is the exit code.
//
// Threads: the main thread only.
// Lifetime: an action owns the options that it reads; `action` itself and `program` outlive the
//   parser.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace verbena::tools {

// 127: there is no such program; shells use the same code.
enum Exit : int { good = 0, failed = 1, usage = 2, impossible_data = 3, cannot_run = 127 };

using Action = std::function<int()>;
// The words of another program at the end of the line (tools/program_words.h).
using ProgramWords = std::vector<std::string>;

CLI::App* add_run(CLI::App& app, Action& action, const ProgramWords& program);
CLI::App* add_explore(CLI::App& app, Action& action, const ProgramWords& program);
void add_why(CLI::App& app, Action& action);
void add_timeline(CLI::App& app, Action& action);
void add_top(CLI::App& app, Action& action);
void add_devices(CLI::App& app, Action& action);
CLI::App* add_doctor(CLI::App& app, Action& action, const ProgramWords& program);
void add_self_test(CLI::App& app, Action& action);
void add_bench_rcud(CLI::App& bench, Action& action, const std::string& command_line);
void add_bench_connect(CLI::App& bench, Action& action, const std::string& command_line);
void add_bench_scale(CLI::App& bench, Action& action, const std::string& command_line);
void add_bench_rpc(CLI::App& bench, Action& action, const std::string& command_line);
void add_bench_kv(CLI::App& bench, Action& action, const std::string& command_line);
void add_kv(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
CLI::App* add_report(CLI::App& app, Action& action, const ProgramWords& program);
void add_certs(CLI::App& app, Action& action);

// Prints "verbena: MESSAGE" on standard error and returns `code`.
int complain(const std::string& message, int code = failed);

// The same, where no exit code follows.
inline void complain_of(const std::string& message) { complain(message); }

}  // namespace verbena::tools
