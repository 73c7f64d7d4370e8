// SPDX-License-Identifier: Apache-2.0
// Endpoints that rdma_cm connects. The sender's Offer goes in the private data of the REQ, the
// receiver's Answer in that of the REP (private_data.h). The measured loops are the same for both
// ways of connecting.
//
// Lifetime: a Connection must outlive its Endpoint, so declare it first.
// Errors: Failure.
#pragma once

#include <span>

#include "bench/rcud/endpoint.h"
#include "bench/rcud/private_data.h"
#include "lib/verbs/connection_manager.h"

namespace verbena::rcud {

// One end of an rdma_cm connection and the device that it uses.
struct Connection {
	explicit Connection(lib::ConnectionId id);

	lib::ConnectionId id;
	lib::OpenDevice device;
};

// The address of a GID for rdma_cm, which a link-local one does not have.
lib::SocketAddress address_for_connection(const ibv_gid& gid, std::uint16_t port);

// No server listens at the address yet.
struct NoListener : Failure {
	using Failure::Failure;
};

// Connects a sender's endpoint, or throws NoListener; the Answer sets `end.remote`, the address of
// the receiver's ring.
void call(rdma_event_channel* channel, Connection& connection, Endpoint& end, const Run& run,
	std::chrono::milliseconds patience);

// Accepts the connection for a receiver's endpoint. Post its receives before.
void answer(Connection& connection, Endpoint& end, const Offer& offer);

}  // namespace verbena::rcud
