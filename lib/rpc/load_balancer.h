// SPDX-License-Identifier: Apache-2.0
// load_balancer: one client_pool for each of several servers, and a rule that spreads requests.
//
//     load_balancer_config by_weight{.lba = load_balance_algorithm::WRR};
//     auto balancer = load_balancer<>::create({"one:9000", "other:9000"}, by_weight, {2, 1});
//     auto ask = [](client_reuse_hint, coro_rpc_client& c) { return c.send_request<echo>("hi"); };
//     auto sent = co_await balancer->send_request(ask);
//
// A server that cannot be reached is left out for `reconnect_wait_time`, and the request goes to
// the next one. A request that was sent is never sent again. The servers come from a list, from a
// resolver that is asked again every `update_interval`, or from a server_watch that reports changes
// at once; a server that is no longer named gets no new requests.
//
// Threads: thread-safe. A resolver runs on a thread of the balancer's own, and once in create().
// Lifetime: operations share the balancer, which may therefore be dropped at any time.
// Errors: errc::not_connected if no server could be reached, or none is known.
#pragma once

#include <condition_variable>
#include <functional>
#include <random>
#include <stop_token>
#include <thread>

#include "lib/rpc/client_pool.h"

namespace verbena::rpc {

enum class load_balance_algorithm : std::uint8_t {
	RR,  // in turn
	WRR,  // in turn, each as often as its weight says, evenly interleaved
	random,  // at random, by weight
};

struct server_address {
	std::string host;  // "host:port"
	unsigned weight = 1;  // 1 or more; 0 counts as 1
	bool operator==(const server_address&) const = default;
};

// A function that returns the present servers. An empty list means that nothing is known, and
// leaves the servers as they are. It may block.
using resolver = std::function<std::vector<server_address>()>;

// A resolver for all addresses of "name:port", with equal weights (getaddrinfo(3)). It returns an
// empty list if the name cannot be resolved.
resolver dns_resolver(std::string name_and_port);

// A source of servers that reports its changes.
class server_watch {
public:
	virtual ~server_watch() = default;
	virtual std::vector<server_address> servers() = 0;
	// Sets the function that is called after each change, on any thread, until this is destroyed.
	// To be called once.
	virtual void notify(std::function<void()> changed) = 0;
};
// Watches "etcd://HOST:2379/PREFIX": the servers are the last parts of the keys below the prefix,
// "host:port", as discovery::Registration enters them. While etcd does not answer, the last list
// stays in force. "etcds://HOST:2379,HOST:2379/PREFIX" is several members of etcd, with TLS; the
// variables VERBENA_ETCD_... (docs/environment.md) name the files and the user for it.
// Error: one sentence, if etcd does not answer the first question.
std::expected<std::unique_ptr<server_watch>, std::string> watch_etcd(std::string_view prefix);

struct load_balancer_config {
	pool_config pool;  // for each server; connect_retry_count is ignored: the next server is tried
	load_balance_algorithm lba = load_balance_algorithm::RR;
	std::chrono::milliseconds update_interval{300'000};  // between two calls of the resolver
};

// The rule alone: which of N places is next, without servers and I/O.
//
// Threads: not thread-safe; the balancer's lock protects it.
// Invariants: there is at least one place, and each weight is 1 or more.
class Spread {
public:
	Spread(load_balance_algorithm algorithm, std::vector<unsigned> weights, std::uint64_t seed);
	// Returns a place for which usable[place] holds, or any place if none is usable.
	std::size_t next(const std::vector<bool>& usable);

private:
	// The weight of a place in this round; 0 if it is left out.
	std::int64_t weight_of(std::size_t place, const std::vector<bool>& usable, bool any) const {
		return !any || usable[place] ? weights_[place] : 0;
	}

	load_balance_algorithm algorithm_;
	std::vector<unsigned> weights_;
	// The turns that each place has saved up: see next().
	std::vector<std::int64_t> credits_by_place_;
	std::mt19937_64 random_;
};

template <class C = Client> class load_balancer : public std::enable_shared_from_this<load_balancer<C>> {
public:
	using config = load_balancer_config;

	// Creates a balancer for these hosts. A host without a weight has weight 1.
	static std::shared_ptr<load_balancer> create(const std::vector<std::string>& hosts,
		load_balancer_config settings = {}, const std::vector<unsigned>& weights = {}) {
		std::vector<server_address> servers;
		for (std::size_t i = 0; i < hosts.size(); ++i)
			servers.push_back({hosts[i], i < weights.size() ? weights[i] : 1});
		return std::shared_ptr<load_balancer>(new load_balancer(std::move(servers), std::move(settings), {}));
	}
	// Calls the resolver once here, which may block, and then regularly on a thread of its own.
	static std::shared_ptr<load_balancer> create(resolver servers, load_balancer_config settings = {}) {
		auto now = servers();
		return std::shared_ptr<load_balancer>(
			new load_balancer(std::move(now), std::move(settings), std::move(servers)));
	}
	// Takes over the watch and follows its changes.
	static std::shared_ptr<load_balancer> create(
		std::unique_ptr<server_watch> watch, load_balancer_config settings = {}) {
		std::shared_ptr<load_balancer> balancer(new load_balancer(watch->servers(), std::move(settings), {}));
		balancer->watch_ = std::move(watch);
		balancer->watch_->notify([of = balancer.get()] {
			if (auto named = of->watch_->servers(); !named.empty()) of->set(std::move(named));
		});
		return balancer;
	}
	load_balancer(const load_balancer&) = delete;
	load_balancer& operator=(const load_balancer&) = delete;

	// Runs the operation on a connection to the next server, as client_pool::send_request() does.
	// The operation is called once: only connecting is tried again.
	template <class Operation> auto send_request(Operation operation) {
		return run(this->shared_from_this(), std::move(operation));
	}

	// A copy of the present list.
	std::vector<server_address> servers() const {
		const std::lock_guard guard(lock_);
		std::vector<server_address> all;
		for (const Entry& each : entries_) all.push_back(each.server);
		return all;
	}

private:
	using Pool = client_pool<C>;
	using Time = std::chrono::steady_clock::time_point;
	struct Entry {
		server_address server;
		std::shared_ptr<Pool> pool;
		Time down_until;  // left out until then
	};
	template <class Operation>
	using ResultOf =
		typename detail::Awaited<decltype(std::declval<Pool&>().send_request(std::declval<Operation>()))>::Type;

	load_balancer(std::vector<server_address> servers, load_balancer_config settings, resolver source)
		: settings_(std::move(settings)) {
		settings_.pool.connect_retry_count = 0;  // the next server is tried instead
		set(std::move(servers));
		if (!source) return;
		updater_ = std::jthread([this, source = std::move(source)](const std::stop_token& stop) {
			std::mutex unused;
			std::unique_lock guard(unused);
			std::condition_variable_any wake;
			while (!wake.wait_for(guard, stop, settings_.update_interval, [&] { return stop.stop_requested(); }) &&
				!stop.stop_requested())
				if (auto named = source(); !named.empty()) set(std::move(named));
		});
	}

	// Replaces the servers. Those that were known keep their pools and connections.
	void set(std::vector<server_address> servers) {
		const std::lock_guard guard(lock_);
		std::vector<Entry> entries;
		std::vector<unsigned> weights;
		for (server_address& each : servers) {
			const auto known =
				std::ranges::find(entries_, each.host, [](const Entry& entry) { return entry.server.host; });
			auto pool = known != entries_.end() ? known->pool : Pool::create(each.host, settings_.pool);
			weights.push_back(std::max(each.weight, 1u));
			entries.push_back({.server = std::move(each), .pool = std::move(pool), .down_until = {}});
		}
		entries_ = std::move(entries);
		spread_.emplace(settings_.lba, std::move(weights), std::random_device()());
	}

	template <class Operation>
	static Lazy<ResultOf<Operation>> run(std::shared_ptr<load_balancer> balancer, Operation operation) {
		std::size_t left = balancer->size();
		while (left > 0) {
			const std::shared_ptr<Pool> pool = balancer->choose();
			auto sent = co_await pool->send_request(operation);
			if (sent || --left == 0) co_return std::move(sent);
			balancer->mark_unreachable(pool);
		}
		co_return std::unexpected(errc::not_connected);
	}

	std::size_t size() const {
		const std::lock_guard guard(lock_);
		return entries_.size();
	}
	std::shared_ptr<Pool> choose() {
		const std::lock_guard guard(lock_);
		const Time now = std::chrono::steady_clock::now();
		usable_.resize(entries_.size());
		for (std::size_t i = 0; i < entries_.size(); ++i) usable_[i] = entries_[i].down_until <= now;
		return entries_[spread_->next(usable_)].pool;
	}
	void mark_unreachable(const std::shared_ptr<Pool>& pool) {
		const std::lock_guard guard(lock_);
		for (Entry& each : entries_)
			if (each.pool == pool)
				each.down_until = std::chrono::steady_clock::now() + settings_.pool.reconnect_wait_time;
	}

	load_balancer_config settings_;
	mutable std::mutex lock_;  // protects the members up to usable_
	std::vector<Entry> entries_;
	std::optional<Spread> spread_;
	std::vector<bool> usable_;  // scratch memory of choose()
	// Both have threads that call set(). As the last members they are destroyed first.
	std::unique_ptr<server_watch> watch_;
	std::jthread updater_;
};

}  // namespace verbena::rpc
