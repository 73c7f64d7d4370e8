// SPDX-License-Identifier: Apache-2.0
#include "nic/status/door.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace verbena::status {

std::expected<Process, int> read(const door::Found& door, const door::Answer& answer) {
	if (!answer.text) return std::unexpected(answer.text.error());
	auto process = parse(*answer.text);
	if (!process || process->uid != door.user()) return std::unexpected(EPROTO);
	return *std::move(process);
}

std::vector<Process> all_in(std::span<const door::Found> doors, std::span<const door::Answer> answers) {
	std::vector<Process> processes;
	for (std::size_t i = 0; i < doors.size(); ++i) {
		if (doors[i].kind() != door_kind) continue;
		if (auto process = read(doors[i], answers[i])) processes.push_back(*std::move(process));
	}
	std::ranges::sort(processes, {}, &Process::pid);
	return processes;
}

std::vector<Process> ask_all() {
	std::vector<door::Found> doors = door::find_all();
	std::erase_if(doors, [](const door::Found& each) { return each.kind() != door_kind; });
	return all_in(doors, door::ask(doors, geteuid(), door::patience));
}

}  // namespace verbena::status
