// SPDX-License-Identifier: Apache-2.0
// verbena doctor: tries everything that the software NIC needs of this machine and gives advice on
// each thing that is missing. It makes no queue pair and measures nothing: that is `verbena
// self-test`. With a program it says whether the NIC can be in that program, and does not run it.
//
// Errors: exit code 1 if there is a problem; a note (the NIC works, but slower) is not one.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/launch.h"
#include "tools/machine_checks.h"

namespace verbena::tools {
namespace {

Findings examine_machine() {
	// The first checks fork, which a process with an open device cannot.
	const Findings confinement = check_confinement();
	Findings findings{check_devices()};
	for (auto&& more : {check_system_calls(), confinement, check_network_and_limits()})
		findings.insert(findings.end(), more.begin(), more.end());
	return findings;
}

Findings examine_program(const ProgramWords& command) {
	const Program program = look(command);
	Findings findings;
	if (const auto nic = find_nic(); !nic) findings.push_back({"the NIC", Level::problem, nic.error(), ""});
	for (const std::string& script : program.scripts) findings.push_back({"script", Level::good, script, ""});
	if (const auto refusal = refusal_of(program)) {
		findings.push_back({"program", Level::problem, refusal->reason, refusal->advice});
		return findings;
	}
	if (program.state == Program::State::unreadable) {
		findings.push_back({"program", Level::note, fmt::format("{}: {}", program.path, program.problem),
			"the program can be started, but not looked at: read permission would allow that"});
		return findings;
	}
	findings.push_back({"program", Level::good, program.path, ""});
	if (!program.elf.interpreter.empty()) findings.push_back({"loader", Level::good, program.elf.interpreter, ""});
	for (const std::string& sanitizer : sanitizers_of(program))
		findings.push_back({"sanitizer", Level::good, sanitizer + " is loaded before the NIC", ""});
	return findings;
}

// Returns the exit code.
int print(const Findings& findings, bool json) {
	bool problem = false;
	nlohmann::ordered_json all = nlohmann::ordered_json::array();
	for (const Finding& each : findings) {
		problem |= each.level == Level::problem;
		if (json) all.push_back(json_of(each));
		else fmt::print("{}", text_of(each, "problem"));
	}
	if (json) fmt::print("{}\n", nlohmann::ordered_json{{"findings", all}, {"problem", problem}}.dump(2));
	return problem ? failed : good;
}

}  // namespace

CLI::App* add_doctor(CLI::App& app, Action& action, const ProgramWords& program) {
	CLI::App* sub = add_command(app, "doctor",
		"Check what the software NIC needs of this machine, and say how to fix problems; or check whether the NIC can "
		"be in a program: verbena doctor [OPTIONS] -- PROGRAM [ARGUMENTS]");
	sub->footer(
		"Examples:\n  verbena doctor\n  verbena doctor --json\n"
		"  verbena doctor -- ./program       looks at the program and does not run it\n"
		"'verbena self-test' sends messages as well, and measures.\n"
		"Exit code 1 if there is a problem; notes are not problems.");
	auto json = std::make_shared<bool>(false);
	sub->add_flag("--json", *json, "Print JSON");
	sub->callback([json, &action, &program] {
		action = [json, &program] {
			return print(program.empty() ? examine_machine() : examine_program(program), *json);
		};
	});
	return sub;
}

}  // namespace verbena::tools
