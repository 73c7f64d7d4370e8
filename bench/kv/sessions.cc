// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/sessions.h"

#include "bench/far_end/failure.h"
#include "bench/kv/rival.h"

namespace verbena::kvbench {

Session& Sessions::of(const Cell& cell) {
	if (cell.varied == Varied::stalled) end_all();
	std::unique_ptr<Session>& session = sessions_[depths_of(cell)];
	if (!session) {
		SessionOptions options = common_;
		options.settings.rx_depth = cell.rx_depth;
		options.settings.tx_depth = cell.tx_depth;
		options.stalled = cell.stalled;
		session = std::make_unique<Session>(options);
		if (served_.port == 0) served_ = session->served();
	}
	return *session;
}

void Sessions::end(const Cell& cell) { sessions_.erase(depths_of(cell)); }

void Sessions::end_all() {
	registrations_of_ended_ = server_registrations();
	sessions_.clear();
}

bench::RivalServer& Sessions::rival_of(const Cell& cell) {
	const bool redis = cell.system == System::redis;
	// One redis-server listens at both places.
	auto& server = rivals_[{cell.system, redis ? Transport::tcp : cell.transport}];
	if (!server) server = bench::take(redis ? bench::start_redis() : bench::start_memcached(at_of(cell.transport)));
	return *server;
}

std::uint64_t Sessions::server_registrations() {
	std::uint64_t all = registrations_of_ended_;
	for (const auto& [depths, session] : sessions_)
		if (session) all += session->server_registrations();
	return all;
}

}  // namespace verbena::kvbench
