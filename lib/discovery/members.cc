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

constexpr std::uint32_t retry_ms = 200;
constexpr std::uint32_t looks_per_lease = 4;
// A call to etcd takes this long at most, so that one lost answer does not cost the lease.
constexpr long call_ms_min = 500, call_ms_max = 5000;

}  // namespace

struct Members::State {
	explicit State(const EtcdPrefix& where) : etcd(where) {}

	// Runs on the thread of its own. While etcd cannot be reached, the last list stays valid.
	void run() {
		while (!etcd.stopped()) {
			if (!etcd.wait_for_change(revision)) {
				if (!etcd.sleep(retry_ms)) return;
			}
			auto listed = etcd.list();
			if (!listed) {
				if (!etcd.sleep(retry_ms)) return;
				continue;
			}
			revision = listed->revision;
			{
				const std::lock_guard guard(lock);
				names = std::move(listed->names);
				changed = true;
			}
			if (notify) notify();
		}
	}

	Etcd etcd;
	std::int64_t revision = 0;
	std::mutex lock;
	std::vector<std::string> names, first;
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

struct Registration::State {
	State(const EtcdPrefix& where, std::string as, std::uint32_t seconds, std::function<void(Look)> looked)
		: etcd(where, std::clamp(seconds * 1000L / looks_per_lease, call_ms_min, call_ms_max)),
		  name(std::move(as)),
		  lease_seconds(seconds),
		  looked(std::move(looked)) {}

	std::expected<void, std::string> enter() {
		auto granted = etcd.grant(lease_seconds);
		if (!granted) return std::unexpected(granted.error());
		lease = std::move(*granted);
		return etcd.put(name, lease, lease_seconds);
	}
	void run() {
		// A server that has just entered looks at once.
		do {
			while (look()) {}
		} while (etcd.sleep(lease_seconds * 1000 / looks_per_lease));
	}
	// Returns true if the key was written, so that another look shows it.
	bool look() {
		Look look{.names = {}, .asked = boot_now()};
		const auto renewed = etcd.renew(lease);
		if (!renewed) return false;
		// The lease has expired, for example after a long pause of this process. Clients have seen
		// this server leave.
		if (!*renewed) {
			const auto granted = etcd.grant(lease_seconds);
			if (!granted) return false;
			lease = *granted;
		}
		const auto entries = etcd.entries();
		if (!entries) return false;
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
		return absent && !etcd.stopped() && etcd.put(name, lease, lease_seconds).has_value();
	}

	Etcd etcd;
	std::string name, lease;
	std::uint32_t lease_seconds;
	std::function<void(Look)> looked;
	std::jthread thread;
};

Registration::Registration(std::unique_ptr<State> state) : state_(std::move(state)) {}

Registration::~Registration() {
	state_->etcd.stop();
	state_->thread.join();
	state_->etcd.resume();
	state_->etcd.revoke(state_->lease);
}

std::expected<std::unique_ptr<Registration>, std::string> Registration::make(
	const EtcdPrefix& where, const std::string& name, std::uint32_t lease_seconds, std::function<void(Look)> looked) {
	auto state = std::make_unique<State>(where, name, lease_seconds, std::move(looked));
	if (auto entered = state->enter(); !entered) return std::unexpected(entered.error());
	state->thread = std::jthread([&of = *state] { of.run(); });
	return std::unique_ptr<Registration>(new Registration(std::move(state)));
}

}  // namespace verbena::discovery
