// SPDX-License-Identifier: Apache-2.0
// Transports: the RDMA transports of a server of the store. A server at all addresses of its host
// has one for each device at whose address a client has arrived.
//
// Threads: one, that of the loop, once it runs.
// Owns: the transports.
// Lifetime: the channels, and the memory that is registered with the transports' pools, end before
//   their transports.
// Errors: a client at the address of a further device that cannot serve it is served by the first
//   transport, and `complain` gets one sentence for this address.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/channel/transports_by_address.h"
#include "lib/kv/settings.h"

namespace verbena::kv {

class Transports {
public:
	// Lets clients access the store's memory by this transport. Returns false if that is not
	// possible.
	using Share = std::function<bool(channel::RcTransport&)>;
	using Complain = std::function<void(const std::string&)>;

	// The options of the first transport, and of the others, which have no memory of the store.
	Transports(async::Loop& loop, const channel::RcOptions& first, const channel::RcOptions& further)
		: loop_(loop), first_(first), further_(further) {}

	// Opens the first transport; call it once. The error is one sentence.
	std::expected<void, std::string> open(const lib::DeviceRequest& wish);
	channel::RcTransport& first() const { return *all_.front(); }
	// channel::transport_by_address() with these transports.
	std::function<channel::RcTransport&(const async::Address&)> by_address(
		const async::Address& where, const lib::DeviceRequest& wish, Share share, Complain complain);

	const std::vector<std::unique_ptr<channel::RcTransport>>& all() const { return all_; }
	// The bytes of receive buffers; those of memory that the transports have registered themselves.
	std::size_t receive_bytes() const;
	std::size_t registered_bytes() const;
	std::uint64_t registrations() const;  // calls of ibv_reg_mr
	std::size_t leases() const;

private:
	async::Loop& loop_;
	channel::RcOptions first_, further_;
	std::vector<std::unique_ptr<channel::RcTransport>> all_;
};

}  // namespace verbena::kv
