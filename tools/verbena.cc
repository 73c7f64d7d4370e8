// SPDX-License-Identifier: Apache-2.0
// The program `verbena`: runs a program on the software NIC, lists devices, measures, and checks
// result tables. Each subcommand has a file of its own beside this one; commands.h lists them.
//
// Errors: one line "verbena: MESSAGE" on standard error, and an exit code from enum Exit.
#include <fmt/format.h>

#include <utility>

#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/loopback_device.h"
#include "tools/program.h"
#include "tools/program_words.h"

namespace verbena::tools {

int complain(const std::string& message, int code) {
	print_error("verbena: {}\n", message);
	return code;
}

}  // namespace verbena::tools

static int act(int argc, char** argv) {
	using namespace verbena::tools;
	std::string command_line = "verbena";
	for (int i = 1; i < argc; ++i) command_line += std::string(" ") + argv[i];

	CommandLine app("verbena",
		"RDMA on any Linux machine: a software NIC in user space, and benchmarks whose results are checked.");
	app.require_subcommand(1);
	app.footer(
		"Examples:\n"
		"  verbena run -- ibv_devinfo -v           run any verbs program, unmodified, on the software NIC\n"
		"  verbena run --trace -- ./program        print every verb, request and packet at the end\n"
		"  verbena explore -- ./program            search for bugs of ordering\n"
		"  verbena devices                         list the RDMA devices, and the one chosen by default\n"
		"  verbena self-test                       say whether RDMA programs run here, and how fast\n"
		"  verbena bench rcud --md -               RC against UD between two processes of this machine\n"
		"  verbena bench connect                   connections a second by rdma_cm\n"
		"  verbena bench scale --clients 10,1000   many clients of one server at once\n"
		"  verbena bench kv --crossover            the key-value store: eager against rendezvous\n"
		"  verbena kv info 127.0.0.1               what a key-value server holds and has counted\n"
		"  verbena check rows.csv --strict         check whether the rows of a table can be true\n"
		"Exit codes: 0 success, 1 failure, 2 wrong usage, 3 data that cannot be true.");

	Action action;
	ProgramWords program;
	const CLI::App* const run = add_run(app, action, program);
	const CLI::App* const explore = add_explore(app, action, program);
	add_why(app, action);
	add_timeline(app, action);
	add_top(app, action);
	add_devices(app, action);
	const CLI::App* const doctor = add_doctor(app, action, program);
	add_self_test(app, action);
	CLI::App* bench = add_command(app, "bench", "Run a benchmark");
	bench->require_subcommand(1);
	bench->footer(
		"Examples:\n"
		"  verbena bench rcud --md -               RC against UD between two processes of this machine\n"
		"  verbena bench connect                   connections a second by rdma_cm\n"
		"  verbena bench scale --clients 10,1000   many clients of one server at once\n"
		"  verbena bench kv --crossover            the key-value store: eager against rendezvous\n"
		"`verbena bench kv --help` and so on show the options of each; docs/benchmarking.md says how to read a "
		"result.\n"
		"Exit codes: 0 success, 1 failure, 2 wrong usage, 3 rows that cannot be true, 130 ended by Ctrl-C.");
	bench->callback(list_loopback_device);
	add_bench_rcud(*bench, action, command_line);
	add_bench_connect(*bench, action, command_line);
	add_bench_scale(*bench, action, command_line);
	add_bench_rpc(*bench, action, command_line);
	add_bench_kv(*bench, action, command_line);
	add_kv(app, action);
	add_check(app, action);
	const CLI::App* const report = add_report(app, action, program);
	add_certs(app, action);
	add_command(app, "version", "Print the version and the commit")->callback([&action] {
		action = [] {
			fmt::print("{}\n", version_of("verbena"));
			return int{good};
		};
	});

	std::vector<std::string> words(argv + 1, argv + argc);
	for (const CLI::App* const each : {run, explore, doctor, report})
		if (!words.empty() && words.front() == each->get_name()) program = cut_program_words(*each, words, 1);
	if (const auto code = app.read(std::move(words))) return *code;
	return action();
}

int main(int argc, char** argv) { return verbena::tools::run_program("verbena", act, argc, argv); }
