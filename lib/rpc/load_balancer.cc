#include "lib/rpc/load_balancer.h"

#include <netdb.h>

#include <memory>
#include <numeric>

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
	: algorithm_(algorithm), weights_(std::move(weights)), turns_(weights_.size()), random_(seed) {
	if (algorithm_ == load_balance_algorithm::RR) std::ranges::fill(weights_, 1u);
}

std::size_t Spread::next(const std::vector<bool>& usable) {
	const bool any = std::ranges::find(usable, true) != usable.end();
	std::vector<std::int64_t> weights(weights_.size());
	for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = !any || usable[i] ? weights_[i] : 0;
	if (algorithm_ == load_balance_algorithm::random)
		return std::discrete_distribution<std::size_t>(weights.begin(), weights.end())(random_);
	// Each is owed its weight a turn; whoever is owed most is next, and pays for the turn of all.
	for (std::size_t i = 0; i < weights.size(); ++i) turns_[i] += weights[i];
	std::size_t best = weights.size();
	for (std::size_t i = 0; i < weights.size(); ++i)
		if (weights[i] > 0 && (best == weights.size() || turns_[i] > turns_[best])) best = i;
	turns_[best] -= std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
	return best;
}

}  // namespace verbena::rpc
