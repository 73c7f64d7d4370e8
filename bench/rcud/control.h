// The control connection between the two processes of a measurement: JSON objects, one a line, over a stream socket. It
// carries parameters and results, never measured traffic, and its end is how a side learns that the other one died.
//
// One thread at a time. Everything received is from outside: a line is at most 64 KiB, and what is not a JSON object
// with a "type" is a Failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "bench/rcud/cell.h"

namespace verbena::rcud {

using Json = nlohmann::json;

class Control {
public:
	explicit Control(int fd) : fd_(fd) {}
	~Control();
	Control(const Control&) = delete;
	Control& operator=(const Control&) = delete;

	// PeerLost when the other side is gone.
	void send(const Json& message);

	// The next message. PeerLost at the end of the stream; Failure when nothing came in time.
	Json receive(std::chrono::milliseconds patience);

	// The next message if it is there already.
	std::optional<Json> try_receive();

private:
	std::optional<Json> take_line();
	bool fill(int wait_ms);

	int fd_;
	std::string buffer_;
};

// Listens on all addresses (port 0: any free one); the descriptor, or a Failure.
int listen_on(std::uint16_t port);
std::uint16_t port_of(int listener);
int accept_one(int listener);

// "host", "host:port", "[v6]:port"; tries for a few seconds, so that the two sides may be started in any order.
int connect_to(std::string_view peer, std::uint16_t default_port, std::chrono::milliseconds patience);

}  // namespace verbena::rcud
