// SPDX-License-Identifier: Apache-2.0
// `verbena run -- PROGRAM [ARGUMENTS]` runs a program with the software NIC in it.
//
// Errors: exit code 127 if libverbena-nic.so or the program cannot be found, 126 if the program
//   cannot be executed or the NIC cannot be in it, 2 if the line is wrong; otherwise the exit code
//   is the program's.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>

#include "lib/metrics/export.h"
#include "tools/adversary_options.h"
#include "tools/checked_run.h"
#include "tools/child.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/fault_options.h"
#include "tools/launch.h"
#include "tools/metrics_options.h"
#include "tools/nic_metrics.h"
#include "tools/profile_options.h"
#include "tools/program.h"
#include "tools/traced_run.h"

namespace verbena::tools {
namespace {

struct RunOptions {
	std::string devices;
	std::string log;
	std::vector<std::string> faults;
	std::string profile;
	std::optional<std::string> adversary;
	TraceOptions trace;
	CheckOptions check;
	std::string metrics;  // [HOST:]PORT; empty: none
	bool stats = false;
};

// Runs the program as a child, with a trace and the checker if they are wanted.
int run_watched(const std::vector<std::string>& command, const RunOptions& options) {
	int ended = 0;
	// The files of both are removed before a signal may end this process.
	{
		TracedRun traced(options.trace);
		CheckedRun checked(options.check);
		const bool checks = !options.check.level.empty();
		if (options.trace.wanted)
			if (const auto refused = traced.begin()) return *refused;
		if (checks)
			if (const auto refused = checked.begin()) return *refused;
		const auto status = run_child(command);
		if (!status) return complain(fmt::format("cannot start a process: {}", std::strerror(status.error())));
		// The trace may be long, so the number of findings comes after it.
		if (options.trace.wanted) traced.finish();
		if (checks)
			if (const auto verdict = checked.finish()) return *verdict;
		ended = *status;
	}
	return end_as(ended);
}

// The advice after `run --trace FILE -- PROGRAM`, where FILE is taken for the program because the
// value of such an option follows "=". Empty: the words before the program do not look so.
std::string advice_on_value(const CLI::App& sub, const std::vector<std::string>& program) {
	if (sub.parse_order().empty() || std::ranges::find(program, "--") == program.end()) return "";
	const CLI::Option& last = *sub.parse_order().back();
	const bool takes_a_value = last.get_expected_min() == 0 && last.get_expected_max() > 0 && last.get_type_size() > 0;
	if (!takes_a_value || (!last.results().empty() && !last.results().back().empty())) return "";
	return fmt::format("to give {0} a value write {0}={1}", last.get_name(), program.front());
}

// The options that have an effect only beside another one; nothing if that one is there.
std::optional<std::string> without_effect(const CLI::App& sub, const TraceOptions& trace) {
	for (const char* const name : {"--trace-format", "--trace-only"})
		if (sub.count(name) > 0 && !trace.shown) return fmt::format("{} needs --trace", name);
	if (sub.count("--trace-size") > 0 && !trace.wanted) return "--trace-size needs --trace or --pcap";
	return std::nullopt;
}

// Replaces this process by the program; returns, with an exit code, on failure, and after a program
// that is watched. `forgotten` is advice for a command that does not exist.
int run(const std::vector<std::string>& command, const RunOptions& options, const std::string& forgotten) {
	if (!options.faults.empty()) {
		const auto faults = fault_text(options.faults);
		if (!faults) return complain(faults.error(), usage);
		setenv("VERBENA_FAULTS", faults->text.c_str(), 1);
		// A program that is killed prints no line at its end.
		if (faults->drawn) print_error("verbena: --faults seed={}\n", *faults->drawn);
	}
	if (!options.profile.empty()) setenv("VERBENA_PROFILE", options.profile.c_str(), 1);
	if (options.adversary) {
		const auto adversary = adversary_text(*options.adversary);
		if (!adversary) return complain(adversary.error(), usage);
		setenv("VERBENA_ADVERSARY", adversary->c_str(), 1);
	}
	const auto nic = find_nic();
	if (!nic) return complain(nic.error(), cannot_run);
	const Program program = look(command);
	if (const auto refusal = refusal_of(program)) {
		if (refusal->exit_code == cannot_run && !forgotten.empty())
			return complain(refusal->reason + "; " + forgotten, usage);
		return complain(fmt::format("{}: {}", refusal->reason, refusal->advice), refusal->exit_code);
	}

	for (const auto& [name, value] : environment_for(program, *nic)) setenv(name.c_str(), value.c_str(), 1);
	if (!options.devices.empty()) setenv("VERBENA_DEVICES", options.devices.c_str(), 1);
	if (!options.log.empty()) setenv("VERBENA_LOG", options.log.c_str(), 1);

	if (options.stats) setenv("VERBENA_STATS", "1", 1);

	std::unique_ptr<metrics::Endpoint> endpoint;
	if (!options.metrics.empty()) {
		auto opened = metrics::Endpoint::open(options.metrics, [] { return nic_families(own_processes()); });
		if (!opened) return complain(opened.error());
		endpoint = std::move(*opened);
		print_error("verbena: metrics at port {}, path /metrics\n", endpoint->port());
	}
	if (options.trace.wanted || !options.check.level.empty() || endpoint) return run_watched(command, options);
	std::vector<char*> argv;
	for (const std::string& argument : command) argv.push_back(const_cast<char*>(argument.c_str()));
	argv.push_back(nullptr);
	execvp(argv[0], argv.data());
	return complain("cannot run " + command[0] + ": " + std::strerror(errno), cannot_run);
}

void add_trace_options(CLI::App& sub, RunOptions& options) {
	TraceOptions& trace = options.trace;
	sub.add_option_function<std::string>(
		   "--trace",
		   [&trace](const std::string& file) {
			   trace.wanted = trace.shown = true;
			   trace.file = file;
		   },
		   "Write each verb, request and packet to FILE, or to standard error, when the program has ended")
		->type_name("[=FILE]")
		->expected(0, 1)
		->run_callback_for_default();
	sub.add_option("--trace-format", trace.format, "The format of the trace; by default by the name of FILE (.json)")
		->check(CLI::IsMember({"text", "json"}));
	sub.add_option("--trace-only", trace.only, "Which events: qp=NUMBER, verb=NAME, errors; separated by commas")
		->type_name("LIST");
	sub.add_option_function<std::string>(
		   "--pcap",
		   [&trace](const std::string& file) {
			   trace.wanted = true;
			   trace.pcap = file;
		   },
		   "Write the packets of both links to FILE, as pcapng for tshark and Wireshark")
		->type_name("FILE");
	sub.add_option("--trace-size", trace.size, "Memory of each process for its latest events, up to 64M")
		->type_name("SIZE")
		->capture_default_str();
}

void add_check_options(CLI::App& sub, RunOptions& options) {
	CheckOptions& check = options.check;
	sub.add_option_function<std::string>(
		   "--check", [&check](const std::string& level) { check.level = level.empty() ? "error" : level; },
		   "Report what the program does against the rules of verbs, at once, and end with status 86 if there is such "
		   "a "
		   "finding: error (the default), also portability, or also advice (docs/check.md)")
		->type_name("[=LEVEL]")
		->expected(0, 1)
		->run_callback_for_default()
		// IsMember would put its list into the help text behind "[=LEVEL]".
		->check([](const std::string& level) -> std::string {
			if (level.empty() || level == "error" || level == "portability" || level == "advice") return "";
			return fmt::format("{} not in {{error,portability,advice}}", level);
		});
	sub.add_option("--suppressions", check.suppressions,
		   "A file with findings that --check shall leave out, a line RULE:PATTERN for each; may be repeated")
		->type_name("FILE")
		->allow_extra_args(false);
	sub.add_option("--report", check.reports,
		   "Write the findings of --check to FILE too, as SARIF if its name ends in .sarif, otherwise as JSON; may be "
		   "repeated")
		->type_name("FILE")
		->allow_extra_args(false);
}

void add_watch_options(CLI::App& sub, RunOptions& options) {
	add_metrics_option(sub, options.metrics,
		"Serve the counters of the program's NIC for Prometheus at http://HOST:PORT/metrics while it runs; 0: any "
		"port");
	sub.add_flag("--stats", options.stats, "Print the counters that are not 0 when the program ends (VERBENA_STATS)");
}

}  // namespace

CLI::App* add_run(CLI::App& app, Action& action, const ProgramWords& program) {
	CLI::App* sub =
		add_command(app, "run", "Run a program on the software NIC: verbena run [OPTIONS] [--] PROGRAM [ARGUMENTS]");
	sub->footer(
		"Examples:\n"
		"  verbena run -- ibv_devinfo -v\n"
		"  verbena run --devices vb_eth0 -- ib_send_bw     show the program this device only\n"
		"  verbena run --devices +vb_lo -- ucx_info -d     the usual devices, and the loopback\n"
		"  verbena run --log info -- ./program             print the reason of each refused verbs call\n"
		"  verbena run --trace -- ibv_rc_pingpong          print every verb, request and packet at the end\n"
		"  verbena run --pcap p.pcapng -- ib_send_lat      write its packets for Wireshark, and for tshark -r\n"
		"  verbena run --trace=t.json --trace-only errors -- ./program\n"
		"  verbena run --metrics 9400 -- ./server          counters and queue pairs for Prometheus\n"
		"  verbena run --stats -- ./program                print what its NIC has counted, at the end\n"
		"  verbena run --faults loss=1%,delay=2ms,seed=7 -- ./program    over a bad network (docs/faults.md)\n"
		"  verbena run --check -- ./program                report what is wrong on every device\n"
		"  verbena run --check=advice --report r.sarif -- ./program\n"
		"  verbena run --profile e810 -- ./program         with the limits of a device (docs/profiles.md)\n"
		"  verbena run --profile=list                      print the devices and their limits\n"
		"  verbena run --adversary=7 -- ./program          delay and reorder as far as RDMA permits\n"
		"  verbena doctor -- ./program                     check whether the NIC can be in the program\n"
		"The exit code is the program's; 127 if there is no such program, 126 if the NIC cannot be in it.");
	auto options = std::make_shared<RunOptions>();
	sub->add_option("--devices", options->devices,
		   "The devices that the program sees, separated by commas; -NAME leaves one out, +NAME adds one "
		   "(VERBENA_DEVICES)")
		->type_name("LIST");
	sub->add_option("--log", options->log, "The messages that the NIC prints: error, warn, info or debug (VERBENA_LOG)")
		->type_name("LEVEL")
		->check(CLI::IsMember({"error", "warn", "info", "debug"}));
	sub->add_option("--faults", options->faults,
		   "Faults that the program's packets meet, as in loss=1%,dup=0.5%,reorder=2%,corrupt=0.1%,delay=2ms±1ms,"
		   "rate=1G,partition=10s..12s,qp-error=1e-6,rnr=5%,seed=7; for some of them with peer=ADDRESS or qp=NUMBER; "
		   "may be repeated (VERBENA_FAULTS)")
		->type_name("LIST")
		->allow_extra_args(false);
	sub->add_option("--profile", options->profile,
		   "The device whose limits the software devices report and enforce; list: print the profiles "
		   "(VERBENA_PROFILE)")
		->type_name(fmt::format("NAME:{{{},list}}", names_of_profiles(",")));
	sub->add_option_function<std::string>(
		   "--adversary", [&chosen = options->adversary](const std::string& text) { chosen = text; },
		   "Behave as badly as RDMA permits, by this seed or a random one: bytes come late and in any order, "
		   "completions late and in bursts (docs/adversary.md); tso, iba or loose says what is permitted "
		   "(VERBENA_ADVERSARY)")
		->type_name("[=SEED][:MODEL]")
		->expected(0, 1)
		->run_callback_for_default();
	add_trace_options(*sub, *options);
	add_check_options(*sub, *options);
	add_watch_options(*sub, *options);
	sub->callback([options, sub, &action, &program] {
		action = [options, sub, &program]() -> int {
			if (options->profile == "list") {
				fmt::print("{}", list_of_profiles());
				return good;
			}
			if (!options->profile.empty())
				if (const auto fault = fault_of_profile(options->profile)) return complain(*fault, usage);
			if (program.empty())
				return complain("there is no command to run: use verbena run [OPTIONS] -- PROGRAM [ARGUMENTS]", usage);
			if (const auto fault = without_effect(*sub, options->trace)) return complain(*fault, usage);
			if (const auto fault = fault_of(options->trace)) return complain(*fault, usage);
			if (const auto fault = fault_of(options->check)) return complain(*fault, usage);
			return run(program, *options, advice_on_value(*sub, program));
		};
	});
	return sub;
}

}  // namespace verbena::tools
