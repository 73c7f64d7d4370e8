// client_pool: connections to one server, shared by many callers and replaced when they break.
//
//     auto pool = client_pool<coro_rpc_client>::create("127.0.0.1:9000", {.max_connection = 4});
//     auto ask = [](client_reuse_hint, coro_rpc_client& c) { return c.send_request<echo>("hi"); };
//     auto sent = co_await pool->send_request(ask);
//     if (sent) auto result = co_await std::move(*sent);
//
// An operation that takes a client_reuse_hint shares its connection: it gets the one with the
// fewest calls in flight, and a new connection is made when all have `reuse_limit` and fewer than
// `max_connection` are shared. An operation without the hint has a connection of its own until it
// ends; these do not count towards `max_connection`.
//
// The pool has no thread. Each send_request() drops connections that broke, pings those that have
// been idle for `host_alive_detect_duration`, and closes those that were unused for `idle_timeout`,
// except the first. A pool that is not used does none of this.
//
// Threads: thread-safe. The operation itself runs on an I/O thread.
// Lifetime: operations share the pool, which may therefore be dropped at any time.
// Errors: errc::not_connected after connect_retry_count + 1 attempts; error_text() says why.
#pragma once

#include <algorithm>
#include <chrono>
#include <expected>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "lib/rpc/client.h"

namespace verbena::rpc {

struct client_reuse_hint {};

struct client_pool_config {
	std::size_t max_connection = 100;  // shared connections
	int connect_retry_count = 3;  // attempts after the first one
	// Calls in flight on each shared connection before another connection is made;
	// -1: 24 over RDMA, 160 over TCP.
	int reuse_limit = -1;
	std::chrono::milliseconds reconnect_wait_time{1'000};  // between two attempts to connect
	std::chrono::milliseconds idle_timeout{30'000};
	std::chrono::milliseconds host_alive_detect_duration{30'000};  // 0: no pings
	client_config client;  // for each connection
	std::optional<ibv_config> ibv;  // absent: TCP
	std::optional<ssl_config> ssl;  // absent: plain text over TCP
	IoThreads* threads = nullptr;  // must outlive the pool; null: IoThreads::of_process()
};

using pool_config = client_pool_config;

template <class C = Client> class client_pool : public std::enable_shared_from_this<client_pool<C>> {
public:
	using config = client_pool_config;
	using pool_config = client_pool_config;

	// Creates a pool for the server at "host:port". Nothing connects before the first operation.
	static std::shared_ptr<client_pool> create(std::string url, config settings = {}) {
		return std::shared_ptr<client_pool>(new client_pool(std::move(url), std::move(settings)));
	}

	// Runs `operation(client_reuse_hint, client)` or `operation(client)`, which returns a Lazy, and
	// returns its result. With the hint the result must not be void.
	// Error: no connection could be made; error_text() says why.
	template <class Operation> auto send_request(Operation operation) {
		if constexpr (std::is_invocable_v<Operation&, client_reuse_hint, C&>)
			return run_shared(this->shared_from_this(), std::move(operation));
		else return run_alone(this->shared_from_this(), std::move(operation));
	}

	// The number of connections that are up, in total and without calls in flight or an operation
	// that has one of its own.
	std::size_t total_client_count() const {
		return count([](const Entry&) { return true; });
	}
	std::size_t free_client_count() const {
		return count([](const Entry& each) { return !each.alone && each.client->get_pipeline_size() == 0; });
	}
	std::size_t busy_client_count() const { return total_client_count() - free_client_count(); }
	// Returns whether the last attempt to connect succeeded; false before the first one.
	bool is_alive() const { return alive_.load(std::memory_order_relaxed); }
	// One sentence about the last attempt that failed; empty if none did.
	std::string error_text() const {
		const std::lock_guard guard(lock_);
		return error_;
	}
	// Lets go of all connections: each closes when the operations that use it have ended. The next
	// operation makes a new one.
	void clear() {
		const std::lock_guard guard(lock_);
		entries_.clear();
	}

private:
	using Time = std::chrono::steady_clock::time_point;
	struct Entry {
		std::shared_ptr<C> client;
		bool alone = false;  // one operation has it exclusively
		Time used;  // when an operation last got it
		Time asked;  // when it was last considered for a ping
	};
	template <class Operation, class... Hint>
	using ResultOf = typename detail::Awaited<std::invoke_result_t<Operation&, Hint..., C&>>::Type;

	client_pool(std::string url, config settings)
		: url_(std::move(url)),
		  settings_(std::move(settings)),
		  threads_(settings_.threads != nullptr ? *settings_.threads : IoThreads::of_process()),
		  reuse_limit_(settings_.reuse_limit > 0 ? static_cast<std::size_t>(settings_.reuse_limit)
				  : settings_.ibv                ? 24
												 : 160) {}

	template <class Operation>
	static Lazy<std::expected<ResultOf<Operation, client_reuse_hint>, errc>> run_shared(
		std::shared_ptr<client_pool> pool, Operation operation) {
		std::shared_ptr<C> client = co_await pool->get(false);
		if (client == nullptr) co_return std::unexpected(errc::not_connected);
		auto task = operation(client_reuse_hint{}, *client);
		auto result = co_await std::move(task);
		co_return std::move(result);
	}
	template <class Operation>
	static Lazy<std::expected<ResultOf<Operation>, errc>> run_alone(
		std::shared_ptr<client_pool> pool, Operation operation) {
		std::shared_ptr<C> client = co_await pool->get(true);
		if (client == nullptr) co_return std::unexpected(errc::not_connected);
		const GiveBack back{*pool, client.get()};
		auto task = operation(*client);
		if constexpr (std::is_void_v<ResultOf<Operation>>) {
			co_await std::move(task);
			co_return {};
		} else {
			auto result = co_await std::move(task);
			co_return std::move(result);
		}
	}
	// Makes an exclusive connection available again.
	struct GiveBack {
		client_pool& pool;
		C* client;
		~GiveBack() {
			const std::lock_guard guard(pool.lock_);
			for (Entry& each : pool.entries_)
				if (each.client.get() == client) each.alone = false;
		}
	};

	// Returns a connection for one operation, or null if none could be made. While other callers
	// are connecting and the limit is reached, it looks every millisecond for one of theirs.
	Lazy<std::shared_ptr<C>> get(bool alone) {
		IoThread& here = IoThread::current() != nullptr ? *IoThread::current() : threads_.next();
		co_await here.on();
		co_await check_idle_connections();
		for (int attempt = 0; attempt <= settings_.connect_retry_count; ++attempt) {
			Choice choice = choose(alone);
			for (const std::uint64_t failed = choice.failed; choice.waits() && choice.failed == failed;
				choice = choose(alone))
				co_await here.loop().sleep_for(look_again);
			if (choice.waits()) continue;  // another caller's failed attempt counts as one of ours
			if (choice.client != nullptr) co_return std::move(choice.client);
			auto made = std::make_shared<C>(threads_.next());
			made->init_config(settings_.client);
			if (settings_.ibv) made->init_ibv(*settings_.ibv);
			if (settings_.ssl) made->init_ssl(*settings_.ssl);
			bool connected = false;
			{
				const Connecting under_way{*this};
				const err_code failed = co_await made->connect(url_);
				connected = !failed;
				note(made, alone, connected);
			}
			if (connected) co_return made;
			if (attempt < settings_.connect_retry_count)
				co_await here.loop().sleep_for(detail::patience_of(settings_.reconnect_wait_time));
		}
		co_return nullptr;
	}

	struct Connecting {
		client_pool& pool;
		~Connecting() {
			const std::lock_guard guard(pool.lock_);
			--pool.connecting_;
		}
	};
	void note(const std::shared_ptr<C>& made, bool alone, bool connected) {
		alive_.store(connected, std::memory_order_relaxed);
		const std::lock_guard guard(lock_);
		if (connected) {
			entries_.push_back({.client = made, .alone = alone, .used = now(), .asked = now()});
		} else {
			++failed_;
			error_ = made->error_text();
		}
	}

	// The decision for one operation: use `client`, or make a connection (`connects`; it is already
	// counted in connecting_), or wait for another caller's attempt because the limit is reached.
	struct Choice {
		std::shared_ptr<C> client;
		bool connects = false;
		std::uint64_t failed = 0;  // failed attempts of all callers so far
		bool waits() const { return client == nullptr && !connects; }
	};
	Choice choose(bool alone) {
		const std::lock_guard guard(lock_);
		std::erase_if(entries_, [](const Entry& each) { return each.client->has_closed(); });
		Entry* best = nullptr;
		for (Entry& each : entries_)
			if (!each.alone &&
				(best == nullptr || each.client->get_pipeline_size() < best->client->get_pipeline_size()))
				best = &each;
		const std::size_t shared =
			connecting_ + static_cast<std::size_t>(std::ranges::count(entries_, false, &Entry::alone));
		const bool more = alone || shared < std::max<std::size_t>(settings_.max_connection, 1);
		const bool good = best != nullptr && best->client->get_pipeline_size() < (alone ? 1 : reuse_limit_);
		if (!good && more) {
			++connecting_;
			return {.client = nullptr, .connects = true, .failed = failed_};
		}
		if (best == nullptr) return {.client = nullptr, .connects = false, .failed = failed_};
		best->alone = alone;
		best->used = now();
		return {.client = best->client, .connects = false, .failed = failed_};
	}

	// Pings connections that are due; drops those that do not answer or were unused too long.
	Lazy<void> check_idle_connections() {
		std::vector<std::shared_ptr<C>> due;
		{
			const std::lock_guard guard(lock_);
			for (Entry& each : entries_) {
				if (settings_.host_alive_detect_duration.count() == 0 || each.alone ||
					now() - each.asked < settings_.host_alive_detect_duration)
					continue;
				each.asked = now();
				// A connection with calls in flight needs no ping: their timeouts watch it.
				if (now() - each.used >= settings_.host_alive_detect_duration && each.client->get_pipeline_size() == 0)
					due.push_back(each.client);
			}
			const auto old = [&](const Entry& each) {
				return !each.alone && each.client->get_pipeline_size() == 0 &&
					now() - each.used > settings_.idle_timeout;
			};
			while (entries_.size() > 1 && old(entries_.back())) entries_.pop_back();
		}
		for (const auto& client : due) {
			const bool answers = co_await client->ping();
			if (answers) continue;
			client->close();
			const std::lock_guard guard(lock_);
			std::erase_if(entries_, [&](const Entry& each) { return each.client == client; });
		}
	}

	// Counts the connections that are up and satisfy the predicate.
	template <class Predicate> std::size_t count(Predicate predicate) const {
		const std::lock_guard guard(lock_);
		return static_cast<std::size_t>(std::ranges::count_if(
			entries_, [&](const Entry& each) { return !each.client->has_closed() && predicate(each); }));
	}
	static Time now() { return std::chrono::steady_clock::now(); }

	static constexpr Nanoseconds look_again = 1'000'000;  // between two looks of a waiting caller

	const std::string url_;
	const config settings_;
	IoThreads& threads_;
	const std::size_t reuse_limit_;
	mutable std::mutex lock_;  // protects the members up to error_
	std::vector<Entry> entries_;
	std::size_t connecting_ = 0;  // attempts in progress
	std::uint64_t failed_ = 0;  // attempts that failed
	std::string error_;
	std::atomic<bool> alive_{false};
};

}  // namespace verbena::rpc
