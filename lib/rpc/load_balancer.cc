// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/load_balancer.h"

#include <netdb.h>

#include <memory>

namespace verbena::rpc {

resolver dns_resolver(std::string name_and_port) {
	return [name = std::move(name_and_port)] {
		std::vector<server_address> servers;
		const auto host = async::split_host(name, 9001);
		if (!host) return servers;
		addrinfo wanted{}, *found = nullptr;
		wanted.ai_socktype = SOCK_STREAM;
		if (getaddrinfo(host->host.c_str(), std::to_string(host->port).c_str(), &wanted, &found) != 0) return servers;
		const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, freeaddrinfo);
		for (const addrinfo* each = all.get(); each != nullptr; each = each->ai_next) {
			async::Address address;
			std::memcpy(&address.storage, each->ai_addr, each->ai_addrlen);
			address.length = each->ai_addrlen;
			servers.push_back({.host = async::to_string(address)});
		}
		return servers;
	};
}

Spread::Spread(load_balance_algorithm algorithm, std::vector<unsigned> weights, std::uint64_t seed)
	: algorithm_(algorithm), weights_(std::move(weights)), credits_by_place_(weights_.size()), random_(seed) {
	if (algorithm_ == load_balance_algorithm::RR) std::ranges::fill(weights_, 1u);
}

std::size_t Spread::next(const std::vector<bool>& usable) {
	const bool any = std::ranges::find(usable, true) != usable.end();
	std::int64_t sum = 0;
	for (std::size_t i = 0; i < weights_.size(); ++i) sum += weight_of(i, usable, any);
	std::size_t best = 0;
	if (algorithm_ == load_balance_algorithm::random) {
		std::int64_t drawn = std::uniform_int_distribution<std::int64_t>(0, sum - 1)(random_);
		while ((drawn -= weight_of(best, usable, any)) >= 0) ++best;
		return best;
	}
	// Smooth weighted round robin: each place gains its weight in every round; the place with the
	// most is next, and loses the sum of all weights.
	best = weights_.size();
	for (std::size_t i = 0; i < weights_.size(); ++i) {
		const std::int64_t weight = weight_of(i, usable, any);
		credits_by_place_[i] += weight;
		if (weight > 0 && (best == weights_.size() || credits_by_place_[i] > credits_by_place_[best])) best = i;
	}
	credits_by_place_[best] -= sum;
	return best;
}

}  // namespace verbena::rpc
