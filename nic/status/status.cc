// SPDX-License-Identifier: Apache-2.0
#include "nic/status/status.h"

#include <algorithm>
#include <cstdio>

#include "base/line_words.h"

namespace verbena::status {
namespace {

constexpr std::string_view head = "verbena status 1\n";

std::optional<QueuePair> queue_pair_in(LineWords words) {
	QueuePair qp;
	words.into(qp.qpn);
	words.into(qp.type);
	words.into(qp.state);
	words.into(qp.peer_qpn);
	words.into(qp.peer_pid);
	words.into(qp.link);
	words.into(qp.waits);
	words.into(qp.sends_posted);
	words.into(qp.sends_done);
	words.into(qp.receives_posted);
	words.into(qp.receives_taken);
	words.into(qp.retries_left);
	words.into(qp.unpolled);
	words.into(qp.peer_address);
	if (words.rest().empty()) return words.good() ? std::optional(std::move(qp)) : std::nullopt;
	words.into(qp.path_mtu);
	words.into(qp.max_rd_atomic);
	words.into(qp.max_dest_rd_atomic);
	return words.good() ? std::optional(std::move(qp)) : std::nullopt;
}

}  // namespace

std::uint64_t Process::counter(std::string_view name) const {
	const auto found = std::ranges::find(counters, name, &std::pair<std::string, std::uint64_t>::first);
	return found == counters.end() ? 0 : found->second;
}

std::string render(const Process& process) {
	std::string out(head);
	char line[320];
	const auto add = [&](auto... values) {
		const int length = std::snprintf(line, sizeof line, values...);
		out.append(line, std::min<std::size_t>(static_cast<std::size_t>(std::max(length, 0)), sizeof line - 1));
	};
	add("process %u %u %llu ", process.pid, process.uid, static_cast<unsigned long long>(process.time));
	out += printable(process.program) + '\n';
	for (const auto& [name, value] : process.counters)
		add("counter %s %llu\n", name.c_str(), static_cast<unsigned long long>(value));
	for (const QueuePair& qp : process.queue_pairs)
		add("qp %u %s %s %u %u %s %s %u %u %u %u %u %u %s %u %u %u\n", qp.qpn, qp.type.c_str(), qp.state.c_str(),
			qp.peer_qpn, qp.peer_pid, qp.link.c_str(), qp.waits.c_str(), qp.sends_posted, qp.sends_done,
			qp.receives_posted, qp.receives_taken, qp.retries_left, qp.unpolled, qp.peer_address.c_str(), qp.path_mtu,
			qp.max_rd_atomic, qp.max_dest_rd_atomic);
	return out;
}

std::optional<Process> parse(std::string_view text) {
	if (!text.starts_with(head)) return std::nullopt;
	text.remove_prefix(head.size());
	std::optional<Process> process;
	while (!text.empty()) {
		LineWords words(take_line(text));
		const std::string_view kind = words.word();
		if (kind == "process") {
			process.emplace();
			words.into(process->pid);
			words.into(process->uid);
			words.into(process->time);
			process->program = printable(words.rest());
			if (!words.good()) return std::nullopt;
		} else if (!process) {
			return std::nullopt;
		} else if (kind == "counter") {
			std::pair<std::string, std::uint64_t> counter;
			words.into(counter.first);
			words.into(counter.second);
			if (words.good()) process->counters.push_back(std::move(counter));
		} else if (kind == "qp") {
			if (auto qp = queue_pair_in(words)) process->queue_pairs.push_back(*std::move(qp));
		}
	}
	return process;
}

}  // namespace verbena::status
