// SPDX-License-Identifier: Apache-2.0
#include "lib/discovery/members.h"

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "base/boot_time.h"
#include "lib/discovery/etcd.h"

namespace verbena::discovery {
namespace {

// The pause after a failure doubles up to the second one.
constexpr std::uint32_t retry_ms_min = 200, retry_ms_max = 2000;
constexpr std::uint32_t looks_per_lease = 4;
// A call to etcd takes this long at most, so that one lost answer does not cost the lease.
constexpr long call_ms_min = 500, call_ms_max = 5000;

}  // namespace

struct Members::State {
	explicit State(const EtcdPrefix& where) : etcd(where) {}

	// Runs on the thread of its own. While etcd cannot be reached, the last list stays valid.
	void run() {
		std::uint32_t pause = retry_ms_min;
		const auto rest = [&] { return etcd.sleep(std::exchange(pause, std::min(2 * pause, retry_ms_max))); };
		while (!etcd.stopped()) {
			const auto waited = etcd.wait_for_change(revision);
			if (!waited && !rest()) return;
			auto listed = etcd.list();
			take(listed);
			if (!listed && !rest()) return;
			if (waited && listed) pause = retry_ms_min;
		}
	}
	// The list may be the same one: a watch of several members of etcd also ends without an event.
	void take(Etcd::Result<Etcd::Listed>& listed) {
		{
			const std::lock_guard guard(lock);
			failure = listed || etcd.stopped() ? std::string() : listed.error();
			if (!listed) return;
			revision = listed->revision;
			if (names == listed->names) return;
			names = std::move(listed->names);
			changed = true;
		}
		if (notify) notify();
	}

	Etcd etcd;
	std::int64_t revision = 0;
	std::mutex lock;
	std::vector<std::string> names, first;
	std::string failure;
	std::atomic<bool> changed{true};
	std::function<void()> notify;
	std::jthread thread;
};

Members::Members(std::unique_ptr<State> state) : state_(std::move(state)) {}

Members::~Members() { state_->etcd.stop(); }

std::expected<std::unique_ptr<Members>, std::string> Members::watch(
	const EtcdPrefix& where, std::function<void()> notify) {
	auto state = std::make_unique<State>(where);
	auto listed = state->etcd.list();
	if (!listed) return std::unexpected(listed.error());
	state->revision = listed->revision;
	state->first = state->names = std::move(listed->names);
	state->notify = std::move(notify);
	state->thread = std::jthread([&of = *state] { of.run(); });
	return std::unique_ptr<Members>(new Members(std::move(state)));
}

const std::vector<std::string>& Members::first() const { return state_->first; }

bool Members::changed() const { return state_->changed.load(std::memory_order_acquire); }

std::vector<std::string> Members::list() {
	const std::lock_guard guard(state_->lock);
	state_->changed = false;
	return state_->names;
}

std::string Members::failure() const {
	const std::lock_guard guard(state_->lock);
	return state_->failure;
}

struct Registration::State {
	State(const EtcdPrefix& where, std::string as, std::uint32_t seconds, std::function<void(Look)> looked,
		std::function<void(const std::string&)> complain)
		: etcd(where, std::clamp(seconds * 1000L / looks_per_lease, call_ms_min, call_ms_max), complain),
		  name(std::move(as)),
		  lease_seconds(seconds),
		  looked(std::move(looked)),
		  complain(std::move(complain)) {}

	std::expected<void, std::string> enter() {
		auto granted = etcd.grant(lease_seconds);
		if (!granted) return std::unexpected(granted.error());
		lease = std::move(*granted);
		return etcd.put(name, lease, lease_seconds);
	}
	void run() {
		// A little more than a quarter: a server that waits for the time of a lease and then for a
		// look (decision 50) need not wait for the fifth one.
		const std::uint32_t interval = lease_seconds * 1000 / looks_per_lease + lease_seconds * 1000 / 256;
		// A server that has just entered looks at once. After a failure it does not wait for long,
		// because its lease goes on.
		for (bool good = true;;) {
			const auto seen = look();
			if (seen && *seen) continue;
			if (etcd.stopped()) return;
			if (seen.has_value() != good && complain)
				complain(seen ? "etcd answers again"
							  : seen.error() + "; while no member of etcd answers, this server does so for " +
							std::to_string(lease_seconds) + " s at most");
			good = seen.has_value();
			if (!etcd.sleep(good ? interval : std::min(interval, retry_ms_min))) return;
		}
	}
	// Returns true if the key was written, so that another look shows it.
	std::expected<bool, std::string> look() {
		Look look{.names = {}, .asked = boot_now()};
		const auto renewed = etcd.renew(lease);
		if (!renewed) return std::unexpected(renewed.error());
		// The lease has expired, for example after a long pause of this process. Clients have seen
		// this server leave.
		if (!*renewed) {
			auto granted = etcd.grant(lease_seconds);
			if (!granted) return std::unexpected(granted.error());
			lease = std::move(*granted);
		}
		const auto entries = etcd.entries();
		if (!entries) return std::unexpected(entries.error());
		bool taken = false;
		for (const Etcd::Entry& each : *entries) {
			look.names.push_back(each.name);
			look.lease_s_max = std::max(look.lease_s_max, each.lease_s);
			if (each.name != name) continue;
			look.entered = each.lease == lease;
			taken = !look.entered;
		}
		std::ranges::sort(look.names);
		const bool absent = !look.entered && !taken;
		if (looked) looked(std::move(look));
		if (!absent) return false;
		if (const auto put = etcd.put(name, lease, lease_seconds); !put) return std::unexpected(put.error());
		return true;
	}

	Etcd etcd;
	std::string name, lease;
	std::uint32_t lease_seconds;
	std::function<void(Look)> looked;
	std::function<void(const std::string&)> complain;
	std::jthread thread;
};

Registration::Registration(std::unique_ptr<State> state) : state_(std::move(state)) {}

Registration::~Registration() {
	state_->etcd.stop();
	state_->thread.join();
	state_->etcd.resume();
	state_->etcd.revoke(state_->lease);
}

std::expected<std::unique_ptr<Registration>, std::string> Registration::make(const EtcdPrefix& where,
	const std::string& name, std::uint32_t lease_seconds, std::function<void(Look)> looked,
	std::function<void(const std::string&)> complain) {
	auto state = std::make_unique<State>(where, name, lease_seconds, std::move(looked), std::move(complain));
	if (auto entered = state->enter(); !entered) return std::unexpected(entered.error());
	state->thread = std::jthread([&of = *state] { of.run(); });
	return std::unique_ptr<Registration>(new Registration(std::move(state)));
}

}  // namespace verbena::discovery
