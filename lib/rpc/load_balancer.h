// load_balancer: one pool for each of several servers, and a rule by which requests are spread over them.
//
//     load_balancer_config by_weight{.lba = load_balance_algorithm::WRR};
//     auto balancer = load_balancer<>::create({"10.0.0.1:9000", "10.0.0.2:9000"}, by_weight, {2, 1});
//     auto ask = [](client_reuse_hint, coro_rpc_client& client) { return client.send_request<echo>("hello"); };
//     auto sent = co_await balancer->send_request(ask);
//
// A server that cannot be reached is left out for `reconnect_wait_time`, and the request goes to the next one; what was
// sent is never sent twice. The servers are a list, or what a resolver says: it is asked again every `update_interval`,
// on a thread of its own, and servers that it names no more get no new requests. dns_resolver() gives all addresses of
// a name; watch_etcd() the entries below a prefix of etcd, whose changes are seen at once.
//
// From any thread. Its operations hold it.
#pragma once

#include <condition_variable>
#include <functional>
#include <random>
#include <span>
#include <stop_token>
#include <thread>

#include "lib/rpc/client_pool.h"

namespace verbena::rpc {

enum class load_balance_algorithm : std::uint8_t {
	RR,  // in turn
	WRR,  // in turn, each as often as its weight says, evenly mixed
	random,  // at random, by weight
};

struct server_address {
	std::string host;  // "host:port"
	unsigned weight = 1;
	bool operator==(const server_address&) const = default;
};

// Who says which servers there are; an empty list changes nothing.
using resolver = std::function<std::vector<server_address>()>;

// All addresses of "name:port", with equal weights.
resolver dns_resolver(std::string name_and_port);

// A resolver that knows when its servers have changed.
class server_watch {
public:
	virtual ~server_watch() = default;
	virtual std::vector<server_address> servers() = 0;
	// `changed` is called after each change, on any thread, until this is destroyed. Called once.
	virtual void notify(std::function<void()> changed) = 0;
};
// "etcd://HOST:2379/PREFIX": the servers are the last parts of the keys below the prefix, "host:port", as
// discovery::Registration puts them there. One sentence, if etcd does not answer now; later what was seen last counts
// until it answers again.
std::expected<std::unique_ptr<server_watch>, std::string> watch_etcd(std::string_view prefix);

struct load_balancer_config {
	pool_config pool;
	load_balance_algorithm lba = load_balance_algorithm::RR;
	std::chrono::milliseconds update_interval{300'000};  // of a resolver
};

// The rule, without the servers: which place is next. Weights are 1 and more. Of one thread at a time.
class Spread {
public:
	Spread(load_balance_algorithm algorithm, std::vector<unsigned> weights, std::uint64_t seed);
	// Among the places for which usable[place] holds, or among all if there is none. There is at least one place.
	std::size_t next(const std::vector<bool>& usable);

private:
	// Of a place in this round.
	std::int64_t weight_of(std::size_t place, const std::vector<bool>& usable, bool any) const {
		return !any || usable[place] ? weights_[place] : 0;
	}

	load_balance_algorithm algorithm_;
	std::vector<unsigned> weights_;
	std::vector<std::int64_t> turns_;  // how much each is owed
	std::mt19937_64 random_;
};

template <class C = Client> class load_balancer : public std::enable_shared_from_this<load_balancer<C>> {
public:
	using config = load_balancer_config;

	// Weights: as many as hosts, or none: all 1.
	static std::shared_ptr<load_balancer> create(const std::vector<std::string>& hosts,
		load_balancer_config settings = {}, const std::vector<unsigned>& weights = {}) {
		std::vector<server_address> servers;
		for (std::size_t i = 0; i < hosts.size(); ++i)
			servers.push_back({hosts[i], i < weights.size() ? weights[i] : 1});
		return std::shared_ptr<load_balancer>(new load_balancer(std::move(servers), std::move(settings), {}));
	}
	static std::shared_ptr<load_balancer> create(resolver servers, load_balancer_config settings = {}) {
		auto now = servers();
		return std::shared_ptr<load_balancer>(
			new load_balancer(std::move(now), std::move(settings), std::move(servers)));
	}
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

	// As client_pool's. Error: no server could be reached, or there is none.
	template <class Operation> auto send_request(Operation operation) {
		return run(this->shared_from_this(), std::move(operation));
	}

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
		Time down_until;
	};
	template <class Operation>
	using ResultOf =
		typename detail::Awaited<decltype(std::declval<Pool&>().send_request(std::declval<Operation>()))>::Type;

	load_balancer(std::vector<server_address> servers, load_balancer_config settings, resolver source)
		: settings_(std::move(settings)) {
		settings_.pool.connect_retry_count = 0;  // another server is asked instead
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
			balancer->leave_out(pool);
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
	void leave_out(const std::shared_ptr<Pool>& pool) {
		const std::lock_guard guard(lock_);
		for (Entry& each : entries_)
			if (each.pool == pool)
				each.down_until = std::chrono::steady_clock::now() + settings_.pool.reconnect_wait_time;
	}

	load_balancer_config settings_;
	mutable std::mutex lock_;
	std::vector<Entry> entries_;
	std::optional<Spread> spread_;
	std::vector<bool> usable_;  // of choose()
	// These end before all that they use.
	std::unique_ptr<server_watch> watch_;
	std::jthread updater_;
};

}  // namespace verbena::rpc
