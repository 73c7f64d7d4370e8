// The parts of messages between client and server (session.h), read and checked: the other process
// is untrusted.
//
// Threads: pure functions.
// Errors: PeerLost for a message without a field that it must have; Failure for a cell that is
//   refused.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "bench/far_end/control.h"
#include "bench/rcud/cell.h"

namespace verbena::rcud {

// For an answer of the other process: a set-up, a result.
inline constexpr auto answer_patience = std::chrono::seconds(30);

// A field of a message, which may be missing or of another type.
template <class T> T field(const bench::Message& message, const char* name) {
	try {
		return message.at(name).get<T>();
	} catch (const nlohmann::json::exception&) {
		throw PeerLost(bench::bad_field(message, name));
	}
}

// Refuses a cell of an untrusted client whose numbers contradict each other or need too much
// memory.
void check_request(const Cell& cell, const Shape& shape);

// The numbers of many queue pairs, in as many messages as they need.
void send_qpns(bench::Control& control, const std::vector<std::uint32_t>& qpns);
// Takes messages from `next` until it has `count` numbers.
std::vector<std::uint32_t> receive_qpns(std::size_t count, const std::function<bench::Message()>& next);

}  // namespace verbena::rcud
