// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/connector.h"

#include <algorithm>
#include <cerrno>

#include "nic/engine/boundary.h"
#include "nic/engine/engine.h"

namespace verbena::engine {

namespace {

constexpr std::size_t requests_max = 64;
constexpr std::size_t failures_max = 64;
constexpr Nanoseconds retry_after = 1'000'000'000;

}  // namespace

Connector::Connector(Engine& engine, Done done) : engine_(engine), done_(std::move(done)) {
	requested_.reserve(requests_max);  // request() is part of a pass and must not fail half-way
}

Connector::~Connector() {
	if (!thread_.joinable()) return;
	{
		const std::lock_guard lock(mutex_);
		stopping_ = true;
	}
	changed_.notify_one();
	thread_.join();
}

bool Connector::request(Place place, Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	if (std::ranges::find(requested_, place) != requested_.end()) return true;
	const auto failed = failed_.find(place);
	if (!place.is_service && failed != failed_.end() && now < failed->second.when + retry_after) return false;
	if (requested_.size() >= requests_max) return false;
	if (!thread_.joinable()) {
		auto thread = Thread::start("verbena-connect", [this] { run(); });
		if (!thread) return false;
		thread_ = std::move(*thread);
	}
	requested_.push_back(place);
	changed_.notify_one();
	return true;
}

bool Connector::refused(Place place) const {
	const auto at = failed_.find(place);
	return at != failed_.end() && at->second.error == ECONNREFUSED;
}

void Connector::run() {
	std::unique_lock lock(mutex_);
	for (;;) {
		changed_.wait(lock, [this] { return stopping_ || !requested_.empty(); });
		if (stopping_) return;
		const Place place = requested_.front();
		lock.unlock();
		if (!attempt([&] { connect(place); })) {
			// There is no memory. Packets for the place are treated as after any other failure.
			attempt([&] {
				engine_.control([&](adapter::ChannelAdapter& adapter) {
					{
						const std::lock_guard relock(mutex_);
						std::erase(requested_, place);
					}
					done_(adapter, place, std::unexpected(ENOMEM));
				});
			});
		}
		lock.lock();
	}
}

void Connector::connect(Place place) {
	// Not patient: packets that wait for one silent owner must not hold up those for others.
	const auto outlet = engine_.neighbour_outlet(place, false);
	engine_.control([&](adapter::ChannelAdapter& adapter) {
		{
			const std::lock_guard lock(mutex_);
			std::erase(requested_, place);
		}
		if (failed_.size() >= failures_max) failed_.clear();
		if (outlet) failed_.erase(place);
		else failed_[place] = {monotonic_now(), outlet.error()};
		done_(adapter, place, outlet);
	});
}

void Connector::abandon_after_fork() { thread_.forget(); }

}  // namespace verbena::engine
