// Many clients of an echo server, of one process each a part: every client is a connection of its own, none ends before all have
// connected, and a message counts when its echo came back right.
//
// Processes share a Board in memory that all map; each runs its part of the clients on one loop.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/histogram.h"
#include "lib/channel/connect.h"

namespace verbena::scale {

struct SwarmOptions {
	std::string host;
	std::uint16_t port = 0;
	channel::Protection protection;
	lib::Wish wish;
	std::uint32_t clients = 10;
	std::uint32_t messages = 100;      // each
	std::uint32_t message_bytes = 1024;
	Nanoseconds think = 10'000'000;    // between an echo and the next message
	Nanoseconds stagger = 0;           // client i waits (i mod 10) times this before it connects
	Nanoseconds patience = 120'000'000'000;
	Nanoseconds spin = 0;
};

enum class Cause : std::uint8_t { none, connect, lost, wrong_echo };
inline constexpr std::size_t causes = 4;

// What one client found; its row of the board.
struct ClientRow {
	std::uint32_t echoes = 0;
	Cause cause = Cause::none;
	bool connected = false;
	float connect_ms = 0;
	float latency_ms = 0;  // mean
};

// One process's histograms, in nanoseconds.
struct PartRows {
	Histogram connect, latency;
	char first_failure[256] = {};
};

struct Board {
	std::atomic<std::uint32_t> settled{0};   // clients that are connected or have failed to
	std::atomic<std::uint32_t> finished{0};  // clients that have sent everything, or failed
	std::atomic<std::uint64_t> began{0}, ended{0};  // of the messages, monotonic
	std::atomic<std::uint64_t> connecting_ended{0};
};

// Runs clients [first, last) of options.clients and returns when all clients of all parts are done. `rows` is that of all clients.
std::expected<void, std::string> run_part(
	const SwarmOptions& options, std::uint32_t first, std::uint32_t last, Board& board, ClientRow* rows, PartRows& part);

}  // namespace verbena::scale
