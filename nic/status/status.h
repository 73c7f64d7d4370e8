// SPDX-License-Identifier: Apache-2.0
// The status that a process on the NIC gives when it is asked: its counters and queue pairs.
//
// As text, one line for each thing, so that a tool of another version can read it:
//
//     verbena status 1
//     process PID UID NANOSECONDS PROGRAM
//     counter NAME VALUE
//     qp QPN TYPE STATE PEER_QPN PEER_PID LINK WAITS SENDS_POSTED SENDS_DONE RECEIVES_POSTED
//        RECEIVES_TAKEN RETRIES_LEFT UNPOLLED PEER_ADDRESS PATH_MTU MAX_RD_ATOMIC
//        MAX_DEST_RD_ATOMIC (all on one line)
//
// Threads: values and pure functions.
// Errors: parse() returns nothing if the text is no status; lines that it does not know are left
//   out. A text is not trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace verbena::status {

struct QueuePair {
	std::uint32_t qpn = 0;
	std::string type;  // "RC", "UC", "UD"
	std::string state;  // "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"
	std::uint32_t peer_qpn = 0;  // 0: not connected
	std::uint32_t peer_pid = 0;  // 0: on another host, or not known
	std::string link;  // "memory": the peer is on this host; "udp"; "none"
	// The oldest request waits for "room" on the link, for a "receive" (the peer has none posted,
	// or no queue pair that can receive), for the "window", an "answer", or "nothing".
	std::string waits;
	// Since the queue was made, modulo 2^32. A shared receive queue counts for all its users.
	std::uint32_t sends_posted = 0, sends_done = 0, receives_posted = 0, receives_taken = 0;
	std::uint32_t retries_left = 0;  // from retry_count down
	// Completions that lie in its completion queues, also those of other queue pairs.
	std::uint32_t unpolled = 0;
	std::string peer_address;  // the peer's GID as an address; "-" before the queue pair has one
	std::uint32_t path_mtu = 0;  // bytes
	std::uint32_t max_rd_atomic = 0, max_dest_rd_atomic = 0;

	std::uint32_t sends_open() const { return sends_posted - sends_done; }
	std::uint32_t receives_open() const { return receives_posted - receives_taken; }
	friend bool operator==(const QueuePair&, const QueuePair&) = default;
};

struct Process {
	std::uint32_t pid = 0, uid = 0;
	std::uint64_t time = 0;  // CLOCK_MONOTONIC, in nanoseconds
	std::string program;
	// Names as in sysfs below ports/1: "counters/port_xmit_data".
	std::vector<std::pair<std::string, std::uint64_t>> counters;
	std::vector<QueuePair> queue_pairs;

	// 0 if there is no such counter.
	std::uint64_t counter(std::string_view name) const;
	friend bool operator==(const Process&, const Process&) = default;
};

std::string render(const Process&);
std::optional<Process> parse(std::string_view text);

}  // namespace verbena::status
