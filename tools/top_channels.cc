// SPDX-License-Identifier: Apache-2.0
#include "tools/top_channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <utility>

#include "base/line_words.h"

namespace verbena::tools {
namespace {

using channel::ChannelStatus;
using channel::TransportStatus;
using status::Process;

const Process* on_nic_with(std::span<const Process> all, std::uint32_t pid) {
	const auto found = std::ranges::find(all, pid, &Process::pid);
	return found == all.end() ? nullptr : &*found;
}

}  // namespace

Channels::Channels(const channel::TransportsSeen& seen, std::span<const Process> on_nic)
	: seen_(seen), on_nic_(on_nic) {
	// Both queue pair numbers are random, and on hardware nothing else says who the peer is.
	std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> ends;
	for (const TransportStatus& transport : seen.transports)
		for (const ChannelStatus& channel : transport.channels) ends[{channel.qpn, channel.peer_qpn}] = transport.pid;
	std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> by_nic;
	for (const Process& process : on_nic)
		for (const status::QueuePair& qp : process.queue_pairs) by_nic[{process.pid, qp.qpn}] = qp.peer_pid;

	for (const TransportStatus& transport : seen.transports) {
		for (const ChannelStatus& channel : transport.channels) {
			ChannelNow row{.transport = &transport, .channel = &channel};
			if (const auto nic = by_nic.find({transport.pid, channel.qpn}); nic != by_nic.end())
				row.peer_pid = nic->second;
			const auto end = ends.find({channel.peer_qpn, channel.qpn});
			if (row.peer_pid == 0 && end != ends.end()) row.peer_pid = end->second;
			rows_.push_back(row);
		}
	}
	std::ranges::stable_sort(rows_, [](const ChannelNow& a, const ChannelNow& b) {
		const bool waits = a.channel->waits != "nothing", other = b.channel->waits != "nothing";
		return waits != other ? waits : a.channel->waits_ms > b.channel->waits_ms;
	});
}

std::uint64_t Channels::left_out() const {
	std::uint64_t count = 0;
	for (const TransportStatus& each : seen_.transports)
		count += each.channels_open > each.channels.size() ? each.channels_open - each.channels.size() : 0;
	return count;
}

std::vector<std::uint32_t> Channels::pids_beside_nic() const {
	std::vector<std::uint32_t> pids;
	for (const TransportStatus& each : seen_.transports) pids.push_back(each.pid);
	for (const channel::SilentProcess& each : seen_.silent) pids.push_back(each.pid);
	std::ranges::sort(pids);
	const auto twice = std::ranges::unique(pids);
	pids.erase(twice.begin(), twice.end());
	std::erase_if(pids, [&](std::uint32_t pid) { return on_nic_with(on_nic_, pid) != nullptr; });
	return pids;
}

std::string Channels::program_of(std::uint32_t pid) const {
	if (const Process* const process = on_nic_with(on_nic_, pid)) return process->program;
	const auto found = std::ranges::find(seen_.transports, pid, &TransportStatus::pid);
	if (found != seen_.transports.end()) return found->program;
	if (std::ranges::find(seen_.silent, pid, &channel::SilentProcess::pid) == seen_.silent.end()) return {};
	std::string name;
	std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
	return printable(name);
}

std::uint32_t Channels::user_of(std::uint32_t pid) const {
	const auto found = std::ranges::find(seen_.transports, pid, &TransportStatus::pid);
	if (found != seen_.transports.end()) return found->uid;
	const auto silent = std::ranges::find(seen_.silent, pid, &channel::SilentProcess::pid);
	return silent == seen_.silent.end() ? 0 : silent->uid;
}

std::string Channels::name_of(std::uint32_t pid) const {
	const std::string program = program_of(pid);
	return program.empty() ? fmt::format("{}", pid) : fmt::format("{} {}", pid, program);
}

std::string Channels::wait_of(const ChannelNow& row) const {
	const ChannelStatus& channel = *row.channel;
	const std::string peer = row.peer_pid != 0 ? name_of(row.peer_pid) : channel.peer;
	if (channel.waits == "credits") return fmt::format("credits from {} ({} ms)", peer, channel.waits_ms);
	if (channel.waits == "fetch")
		return fmt::format("{} to fetch {} B ({} ms)", peer, channel.offered_bytes, channel.waits_ms);
	if (channel.waits == "units") return "a buffer of its own";
	if (channel.waits == "memory") return "registered memory of its own";
	if (channel.waits == "room") return "room in its send queue";
	return {};
}

std::string Channels::page(std::size_t lines) const {
	std::string out;
	const auto put = std::back_inserter(out);
	std::uint64_t more = left_out();
	if (!rows_.empty())
		fmt::format_to(put, "\n{:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}  {:31} {}\n", "PID", "CHANNEL",
			"CREDITS", "GRANTED", "SENDS", "BYTES", "OFFERS", "HELD", "PEER", "WAITS FOR");
	for (std::size_t i = 0; i < rows_.size(); ++i) {
		if (i == lines) {
			more += rows_.size() - i;
			break;
		}
		const ChannelNow& row = rows_[i];
		const ChannelStatus& channel = *row.channel;
		const std::string peer =
			fmt::format("0x{:x} of {}", channel.peer_qpn, row.peer_pid != 0 ? name_of(row.peer_pid) : channel.peer);
		fmt::format_to(put, "{:>8} {:>8} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}  {:31.31} {}\n", row.transport->pid,
			fmt::format("0x{:x}", channel.qpn), channel.credits, channel.granted, channel.sends, channel.bytes,
			channel.offers, channel.held, peer, wait_of(row));
	}
	if (more > 0) fmt::format_to(put, "{:>8} {} more channels\n", "...", more);
	for (const channel::SilentProcess& each : seen_.silent)
		fmt::format_to(put, "{:>8} {}: no answer about its channels, because its event loop does not run\n", each.pid,
			program_of(each.pid));
	return out;
}

void Channels::describe(std::uint32_t pid, nlohmann::ordered_json& process) const {
	process["channels"] = nlohmann::ordered_json::array();
	for (const ChannelNow& row : rows_) {
		if (row.transport->pid != pid) continue;
		const ChannelStatus& channel = *row.channel;
		process["channels"].push_back({{"qp", channel.qpn}, {"device", row.transport->device},
			{"peer_qp", channel.peer_qpn}, {"peer", channel.peer}, {"peer_pid", row.peer_pid},
			{"peer_program", program_of(row.peer_pid)}, {"waits_for", channel.waits}, {"waits_ms", channel.waits_ms},
			{"credits", channel.credits}, {"credits_granted", channel.granted}, {"sends_waiting", channel.sends},
			{"bytes_waiting", channel.bytes}, {"offers", channel.offers}, {"offered_bytes", channel.offered_bytes},
			{"buffers_held", channel.held}});
	}
	process["transports_silent"] = std::ranges::count(seen_.silent, pid, &channel::SilentProcess::pid);
}

}  // namespace verbena::tools
