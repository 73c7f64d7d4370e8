// SPDX-License-Identifier: Apache-2.0
// The clients of one process, and the loop that runs them. run_part() (swarm.h) makes one.
//
// Threads: the thread of its loop.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/scale/swarm.h"
#include "lib/async/job.h"
#include "lib/channel/managed.h"
#include "lib/channel/mux_carrier.h"

namespace verbena::scale {

// At the beginning of each message: the number of its client, and its own number.
struct Mark {
	std::uint32_t client = 0;
	std::uint32_t number = 0;
};

struct Schedule;  // the times of one client (part_talk.cc)

// The reason why a connection was not made: the class is counted, the text is reported.
struct Why {
	channel::ConnectTrouble trouble = channel::ConnectTrouble::none;
	std::string text;
};

// The clients of one process, and the loop that runs them.
//
// Lifetime: must outlive its coroutines; run_part() waits for them.
struct Part {
	const SwarmOptions& options;
	Board& board;
	ClientRow* rows;
	PartRows& part;
	async::Loop loop;
	async::Semaphore handshakes{loop, options.handshakes};
	std::unique_ptr<channel::RcTransport> transport;
	std::unique_ptr<channel::ManagedEvents> events;  // with ConnectBy::rdmacm; else null
	std::vector<std::byte> pattern;
	bool loopback = false;  // whether all servers are at IPv4 loopback addresses
	async::List<async::Waiter> at_start, at_end;
	// For logical clients.
	channel::MuxGroup group;
	std::uint32_t carriers_wanted = 0, carriers_settled = 0;
	Why carrier_failure;
	async::List<async::Waiter> at_carriers;

	channel::ConnectOptions where(std::uint32_t index, const async::Address* from);
	// Sets the source address of a client; false: let the kernel choose it.
	bool address_of(std::uint32_t index, async::Address& from) const;
	// Connects one carrier of logical clients.
	async::Task<void> carrier(std::uint32_t index);
	// Connects one client; null, with the reason in `why`, if that failed.
	async::Task<std::unique_ptr<channel::Channel>> connect(std::uint32_t index, Why& why);
	// Makes a connection, not a logical channel; null, with the reason in `why`, if that failed.
	async::Task<std::unique_ptr<channel::Channel>> connect_stream(channel::ConnectOptions options, Why& why);
	// One client from its first step to its end.
	async::Task<void> client(std::uint32_t index);
	// Sends a client's messages and checks the echoes; false if the client failed.
	async::Task<bool> talk(std::uint32_t index, channel::Channel& channel);
	// A message of the client after its first `head` bytes, which hold its Mark.
	std::span<const std::byte> body_of(std::uint32_t index, std::size_t head) const {
		return std::span(pattern).subspan(index % 64, options.message_bytes - head);
	}
	// Whether these bytes are message `mark.number` of client `mark.client`.
	bool is_message(std::span<const std::byte> bytes, const Mark& mark) const;
	// Records the latency of an echo that has just arrived.
	void count_echo(Nanoseconds start, Nanoseconds now, const Schedule& schedule);
	// Starts and ends the clients of this process when the board says so.
	async::Task<void> watch();
	void fail(std::uint32_t index, Cause cause, const std::string& text);
};

}  // namespace verbena::scale
