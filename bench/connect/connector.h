// What the measured loop of `verbena bench connect` connects by: a way of making connections, seen as two ends.
//
// The loop (run.h) begins connections, keeps as many under way as it is told, and takes reports as they come; how a
// connection is made is the connector's own. rdmacm.h is rdma_cm; another way gives itself other parts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"

namespace verbena::connect {

inline constexpr std::size_t parts_max = 4;

// Something has come to its end. What went wrong is thrown as a rcud::Failure.
struct Report {
	enum class Kind : std::uint8_t { established, disconnected };
	std::uint32_t number = 0;  // as begin() was given it
	Kind kind = Kind::established;
	Nanoseconds began = 0, ended = 0;
	std::array<Nanoseconds, parts_max>
		parts{};  // of an established one: how long each part took; their sum is ended - began
};

// The active end. One thread.
class Connector {
public:
	virtual ~Connector() = default;

	// The names of the parts, in the order in which they follow each other.
	virtual std::span<const std::string_view> parts() const = 0;
	// Begins connection `number`, which is not in use.
	virtual void begin(std::uint32_t number) = 0;
	// Begins to end it. When its end is reported, the number is free.
	virtual void end(std::uint32_t number) = 0;
	// Waits until one of those begun is where it should be.
	virtual Report next() = 0;
};

// How many connections a passive end has seen come and go. The program at this end counts, not the one that asked for
// them.
struct Account {
	std::uint64_t established = 0, disconnected = 0, failed = 0;
	std::string trouble;  // of the last failure
};

// The passive end: serves on threads of its own, from its construction to its end.
class Acceptor {
public:
	virtual ~Acceptor() = default;
	virtual std::uint16_t port() const = 0;
	// The account once it has reached these figures, or when `patience` is over, or after a failure.
	virtual Account account(std::uint64_t established, std::uint64_t disconnected, Nanoseconds patience) = 0;
};

}  // namespace verbena::connect
