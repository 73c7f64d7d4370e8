// Endpoints that rdma_cm connects: the REQ carries the sending side's Offer, the REP the receiving side's Answer.
//
// Declare a Connection before its Endpoint, which lives on it. The measured loops do not know the difference.
#pragma once

#include <span>

#include "bench/rcud/endpoint.h"
#include "bench/rcud/private_data.h"
#include "lib/verbs/connection_manager.h"

namespace verbena::rcud {

// The value, or its error thrown as a Failure.
template <class T> T take(lib::Connected<T> made) {
	if (!made) throw Failure(made.error().text);
	if constexpr (!std::is_void_v<T>) return std::move(*made);
}

// One end of an rdma_cm connection, and the device that it runs on.
struct Connection {
	explicit Connection(lib::ConnectionId id);

	lib::ConnectionId id;
	lib::OpenDevice device;
};

// Connects a sender's endpoint, and learns where the receiver's memory is.
void call(rdma_event_channel* channel, Connection& connection, Endpoint& end, const Run& run,
	std::chrono::milliseconds patience);

// Accepts for a receiver's endpoint, whose receives are posted.
void answer(Connection& connection, Endpoint& end, const Offer& offer);

}  // namespace verbena::rcud
