// SPDX-License-Identifier: Apache-2.0
// The set-up of the clients of one process.
#include <netinet/in.h>

#include "bench/scale/part.h"

namespace verbena::scale {
namespace {

// An address has 28,232 ephemeral ports, so clients of a server on this host use several source
// addresses of 127.0.0.0/8.
constexpr std::uint32_t clients_per_address = 10'000;

}  // namespace

using async::Task;

bool Part::address_of(std::uint32_t index, async::Address& from) const {
	if (!loopback || events) return false;
	auto& address = reinterpret_cast<sockaddr_in&>(from.storage);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + options.first_address + index / clients_per_address);
	from.length = sizeof address;
	return true;
}

channel::ConnectOptions Part::where(std::uint32_t index, const async::Address* from) {
	return {.protection = options.protection,
		.host = options.hosts[index % options.hosts.size()],
		.port = options.port,
		.patience = options.patience,
		.from = from,
		.handshakes = options.handshakes > 0 ? &handshakes : nullptr};
}

Task<std::unique_ptr<channel::Channel>> Part::connect_stream(channel::ConnectOptions where, Why& why) {
	where.trouble = &why.trouble;
	std::unique_ptr<channel::Channel> channel;
	if (options.transport == Transport::rdma) {
		auto connecting = events ? channel::connect_managed(*events, *transport, std::move(where))
								 : channel::connect(*transport, std::move(where));
		auto made = co_await std::move(connecting);
		if (made) {
			part.mtu = (*made)->path().mtu;
			channel = std::move(*made);
		} else {
			why.text = made.error();
		}
	} else {
		const channel::TcpOptions tcp;
		auto made = co_await channel::connect_tcp(loop, std::move(where), tcp);
		if (made) channel = std::move(*made);
		else why.text = made.error();
	}
	co_return std::move(channel);
}

Task<void> Part::carrier(std::uint32_t index) {
	async::Address from;
	const bool chosen = address_of(index, from);
	channel::Negotiated granted;
	channel::ConnectOptions to = where(index, chosen ? &from : nullptr);
	to.shared_queue_pairs = options.queue_pairs;
	to.logical_channels = options.clients;
	to.negotiated = &granted;
	auto connecting = connect_stream(std::move(to), carrier_failure);
	auto channel = co_await std::move(connecting);
	if (channel && granted.shared_queue_pairs < options.queue_pairs) {
		carrier_failure.text = "the server lets logical clients share at most " +
			std::to_string(granted.shared_queue_pairs) + " queue pairs: use a smaller --qps";
		channel.reset();
	}
	if (channel)
		group.add(std::make_unique<channel::MuxCarrier>(
			std::move(channel), channel::Mux::Side::opener, mux_options(options)));
	if (++carriers_settled == carriers_wanted) loop.resume_soon(at_carriers);
}

Task<std::unique_ptr<channel::Channel>> Part::connect(std::uint32_t index, Why& why) {
	if (!options.logical()) {
		async::Address from;
		const bool chosen = address_of(index, from);
		auto connecting = connect_stream(where(index, chosen ? &from : nullptr), why);
		auto channel = co_await std::move(connecting);
		co_return std::move(channel);
	}
	while (carriers_settled < carriers_wanted) co_await async::Park(at_carriers);
	std::unique_ptr<channel::Channel> channel;
	if (group.carriers().empty()) {
		why = carrier_failure;
		co_return std::move(channel);
	}
	auto opening = group.open(index);
	auto opened = co_await std::move(opening);
	if (opened) channel = std::move(*opened);
	else why.text = opened.error();
	co_return std::move(channel);
}

}  // namespace verbena::scale
