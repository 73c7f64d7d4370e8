// SPDX-License-Identifier: Apache-2.0
// Chooses the transport for a client of a server that listens at all addresses of its host: that of
// the device at whose address the client's TCP connection has arrived, because the client may not
// reach the addresses of other devices.
//
// Threads: the loop's thread. The first client at an address of a further device makes the loop
//   wait until the device is open, which takes milliseconds.
// Owns: nothing; the function that opens transports keeps them.
// Lifetime: the transports outlive the object.
// Errors: if the device cannot be opened or has no such address, the first transport is chosen.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/async/socket.h"
#include "lib/channel/rc_transport.h"

namespace verbena::channel {

class TransportsByAddress {
public:
	// Opens the transport of the device with this name. Null: that is not possible.
	using Open = std::function<RcTransport*(const std::string& device)>;

	TransportsByAddress(RcTransport& first, Open open) : first_(first), open_(std::move(open)) {}

	// Returns the transport for connections to this address of this host; its port is ignored.
	RcTransport& at(const async::Address& local);

private:
	RcTransport& open(const async::Address& local);

	RcTransport& first_;
	Open open_;
	// The addresses at which clients have arrived, as text; no more than this host has.
	std::vector<std::pair<std::string, RcTransport*>> known_;
};

// For a server that listens at `where`: the function that chooses the transport of each client.
// Empty if all clients are served over the first transport, because the server listens at one
// address or `wish` names a device or a GID.
std::function<RcTransport&(const async::Address&)> transport_by_address(
	const async::Address& where, const lib::DeviceRequest& wish, RcTransport& first, TransportsByAddress::Open open);

// For a client: returns the name of the device that leads to all these servers, or an empty name
// (lib/verbs/local_device.h).
std::string device_towards(std::span<const async::Address> servers);

}  // namespace verbena::channel
