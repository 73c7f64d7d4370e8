// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/managed.h"

#include <fmt/format.h>

namespace verbena::rcud {

Connection::Connection(lib::ConnectionId id_) : id(std::move(id_)), device(take(lib::device_of(id.get()))) {}

lib::SocketAddress address_for_connection(const ibv_gid& gid, std::uint16_t port) {
	const auto address = lib::address_of(gid, port);
	if (!address)
		throw Failure(fmt::format(
			"rdma_cm needs an IP address, but the link-local GID {} has none without its interface: choose another "
			"--gid-index",
			lib::format_gid(gid)));
	return *address;
}

void call(rdma_event_channel* channel, Connection& connection, Endpoint& end, const Run& run,
	std::chrono::milliseconds patience) {
	const Address own = end.address();
	const auto offer =
		encode(Offer{.cell = end.cell, .run = run, .credit_word = own.credit_word, .rkey = own.data_rkey});
	const auto data = lib::connect(channel, connection.id.get(), offer, patience);
	if (!data && data.error().trouble == lib::ConnectTrouble::refused) throw NoListener(data.error().text);
	const Answer ring = take(decode_answer(take(data)));
	end.remote = {.data = ring.data, .data_rkey = ring.rkey};
}

void answer(Connection& connection, Endpoint& end, const Offer& offer) {
	const Address own = end.address();
	end.remote = {.data_rkey = offer.rkey, .credit_word = offer.credit_word};
	take(lib::accept(connection.id.get(), encode(Answer{.data = own.data, .rkey = own.data_rkey})));
}

}  // namespace verbena::rcud
