// SPDX-License-Identifier: Apache-2.0
// The control connection between the two processes of a measurement: JSON objects, one a line, over
// a stream socket. It carries parameters and results, never measured traffic. When one process
// dies, the other one sees the end of the stream.
//
// Threads: one thread at a time.
// Owns: the descriptor.
// Errors: the peer is untrusted. PeerLost at the end of the stream, and for a line of more than 64
//   KiB or one that is not a JSON object with a "type".
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "bench/far_end/failure.h"

namespace verbena::bench {

using Message = nlohmann::json;

// The messages for mistakes of the other process.
inline constexpr const char* other_protocol =
	"the other process speaks another protocol: start the same 'verbena bench' at both ends";
inline constexpr const char* peer_ended = "the other process ended";
inline constexpr const char* peer_gave_up = "the other process gave up";
std::string version_mismatch(int theirs, int ours);
std::string bad_field(const Message& message, const char* name);
std::string wrong_answer(const Message& message, std::string_view expected);
// Whether this is the first message of a client of this protocol. A field of another type is none.
bool is_hello(const Message& message, std::string_view protocol);

class Control {
public:
	explicit Control(int fd) : fd_(fd) {}
	~Control();
	Control(const Control&) = delete;
	Control& operator=(const Control&) = delete;

	// Blocks until the whole message is written.
	void send(const Message& message);

	// Waits for the next message; Failure if none came within `patience`.
	Message receive(std::chrono::milliseconds patience);

	// The next message if it has arrived already; never waits.
	std::optional<Message> try_receive();

private:
	// The first whole line of the buffer, if there is one.
	std::optional<Message> take_line();
	// Waits up to `wait_ms` for bytes and appends them to the buffer; false if none came.
	bool fill(int wait_ms);

	int fd_;
	std::string buffer_;
};

// Each of these returns a descriptor that the caller owns, or throws a Failure.
// Listens on all addresses; port 0 takes any free one.
int listen_on(std::uint16_t port);
std::uint16_t port_of(int listener);
int accept_one(int listener);

// Connects to "host", "host:port" or "[v6]:port". Retries until `patience` is over, so that the two
// sides may be started in any order.
int connect_to(std::string_view peer, std::uint16_t default_port, std::chrono::milliseconds patience);

}  // namespace verbena::bench
