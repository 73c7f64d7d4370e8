// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/transports.h"

#include <numeric>

namespace verbena::kv {
namespace {

using channel::RcTransport;
using All = std::vector<std::unique_ptr<RcTransport>>;

template <class Number> Number sum_of(const All& all, Number (*number_of)(RcTransport&)) {
	return std::transform_reduce(all.begin(), all.end(), Number{0}, std::plus<>(),
		[number_of](const std::unique_ptr<RcTransport>& each) { return number_of(*each); });
}

}  // namespace

std::expected<void, std::string> Transports::open(const lib::DeviceRequest& wish) {
	auto opened = RcTransport::open(loop_, wish, first_);
	if (!opened) return std::unexpected(opened.error());
	all_.push_back(std::move(*opened));
	return {};
}

std::function<RcTransport&(const async::Address&)> Transports::by_address(
	const async::Address& where, const lib::DeviceRequest& wish, Share share, Complain complain) {
	const auto open = [this, share = std::move(share), complain = std::move(complain)](
						  const std::string& device) -> RcTransport* {
		auto opened = RcTransport::open(loop_, {.device = device}, further_);
		const std::string problem = !opened ? opened.error()
			: share(**opened)               ? std::string()
											: "the memory of the store cannot be registered with it";
		if (problem.empty()) return all_.emplace_back(std::move(*opened)).get();
		complain("clients at the address of the device " + device + " are served by " + first().device().choice.device +
			", which they may not reach: " + problem);
		return nullptr;
	};
	return channel::transport_by_address(where, wish, first(), open);
}

std::size_t Transports::receive_bytes() const {
	return sum_of<std::size_t>(all_, [](RcTransport& each) { return each.units() * each.options().unit_bytes; });
}

std::size_t Transports::registered_bytes() const {
	return sum_of<std::size_t>(all_, [](RcTransport& each) { return each.memory().registered(); });
}

std::uint64_t Transports::registrations() const {
	return sum_of<std::uint64_t>(all_, [](RcTransport& each) { return each.memory().counters().registrations; });
}

std::size_t Transports::leases() const {
	return sum_of<std::size_t>(all_, [](RcTransport& each) { return std::size_t{each.windows_in_use()}; });
}

}  // namespace verbena::kv
