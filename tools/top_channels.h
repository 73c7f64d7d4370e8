// SPDX-License-Identifier: Apache-2.0
// The part of `verbena top` about channels of the library: their credits, and the process for which
// each waits. It joins what transports say of themselves (lib/channel/status.h) with what the NIC
// says of their queue pairs, if they are on the NIC.
//
// Threads: values and pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "lib/channel/status.h"
#include "nic/status/status.h"

namespace verbena::tools {

struct ChannelNow {
	const channel::TransportStatus* transport;
	const channel::ChannelStatus* channel;
	std::uint32_t peer_pid = 0;  // 0: on another host, or not known
};

class Channels {
public:
	// All of these outlive it.
	Channels(const channel::TransportsSeen& seen, std::span<const status::Process> on_nic);

	// Those that wait first.
	const std::vector<ChannelNow>& rows() const { return rows_; }
	// Channels that exist and are not among rows().
	std::uint64_t left_out() const;
	// Processes that have a transport, or had no answer for one, and are not on the NIC; by pid.
	std::vector<std::uint32_t> pids_beside_nic() const;
	bool empty() const { return seen_.transports.empty() && seen_.silent.empty(); }

	// "812 server", or the number alone.
	std::string name_of(std::uint32_t pid) const;
	// "credits from 812 server (40 ms)"; empty if the channel does not wait.
	std::string wait_of(const ChannelNow& row) const;
	// A table of at most `lines` channels, and a line for each process that does not answer.
	std::string page(std::size_t lines) const;
	// The fields "channels" and "transports_silent" of this process.
	void describe(std::uint32_t pid, nlohmann::ordered_json& process) const;
	std::string program_of(std::uint32_t pid) const;
	std::uint32_t user_of(std::uint32_t pid) const;

private:
	const channel::TransportsSeen& seen_;
	std::span<const status::Process> on_nic_;
	std::vector<ChannelNow> rows_;
};

}  // namespace verbena::tools
