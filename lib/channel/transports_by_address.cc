// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/transports_by_address.h"

#include <algorithm>
#include <memory>

#include "lib/verbs/local_device.h"

namespace verbena::channel {

RcTransport& TransportsByAddress::at(const async::Address& local) {
	const std::string text = async::to_string(local);
	const std::string address = text.substr(0, text.rfind(':'));
	const auto found = std::ranges::find(known_, address, &std::pair<std::string, RcTransport*>::first);
	if (found != known_.end()) return *found->second;
	return *known_.emplace_back(address, &open(local)).second;
}

std::function<RcTransport&(const async::Address&)> transport_by_address(
	const async::Address& where, const lib::DeviceRequest& wish, RcTransport& first, TransportsByAddress::Open open) {
	if (!async::is_wildcard(where) || !wish.device.empty() || wish.gid_index) return {};
	auto transports = std::make_shared<TransportsByAddress>(first, std::move(open));
	return [transports](const async::Address& local) -> RcTransport& { return transports->at(local); };
}

std::string device_towards(std::span<const async::Address> servers) {
	std::vector<const sockaddr*> peers;
	for (const async::Address& each : servers) peers.push_back(each.get());
	return lib::device_towards(peers);
}

RcTransport& TransportsByAddress::open(const async::Address& local) {
	const std::string device = lib::device_at(local.get());
	if (device.empty() || device == first_.device().choice.device) return first_;
	RcTransport* const opened = open_(device);
	return opened != nullptr ? *opened : first_;
}

}  // namespace verbena::channel
