// SPDX-License-Identifier: Apache-2.0
// The interface of a way to make connections, for the measured loop of `verbena bench connect`: the
// active end (Connector) and the passive end (Acceptor). rdmacm.h implements it by rdma_cm.
//
// The loop (run.h) begins connections, keeps a given number of them under way, and takes reports as
// they come.
//
// Errors: bench::Failure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/time.h"

namespace verbena::connect {

// The parts of a connect, in the order in which they happen.
inline constexpr std::array<std::string_view, 4> part_names{"address", "route", "queue_pair", "connect"};

// The report that a connection is established, or that it is disconnected.
struct Report {
	enum class Kind : std::uint8_t { established, disconnected };
	std::uint32_t number = 0;  // the number that was passed to begin()
	Kind kind = Kind::established;
	Nanoseconds began = 0, ended = 0;  // monotonic
	// If established: the time of each part; their sum is ended - began.
	std::array<Nanoseconds, part_names.size()> parts{};
};

// The active end.
//
// Threads: one thread.
class Connector {
public:
	virtual ~Connector() = default;

	// Begins to connect; `number` must not be in use.
	virtual void begin(std::uint32_t number) = 0;
	// Begins to disconnect. The number is free again when its end is reported.
	virtual void end(std::uint32_t number) = 0;
	// Waits for the next report.
	virtual Report next() = 0;
};

// The connections that a passive end has counted itself, independently of the active end.
struct Account {
	std::uint64_t established = 0, disconnected = 0, failed = 0;
	std::string trouble;  // the text of the latest failure
};

// The passive end.
//
// Threads: serves on a thread of its own, from construction to destruction; account() may be called
//   from another thread.
class Acceptor {
public:
	virtual ~Acceptor() = default;
	virtual std::uint16_t port() const = 0;
	// Waits until the account has reached these counts, until a failure, or for `patience`, and
	// returns the account.
	virtual Account account(std::uint64_t established, std::uint64_t disconnected, Nanoseconds patience) = 0;
};

}  // namespace verbena::connect
