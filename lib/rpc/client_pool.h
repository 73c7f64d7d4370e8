// SPDX-License-Identifier: Apache-2.0
// client_pool: connections to one server, shared by many callers and replaced when they break.
//
//     auto pool = client_pool<coro_rpc_client>::create("127.0.0.1:9000", {.max_connection = 4});
//     auto ask = [](client_reuse_hint, coro_rpc_client& c) { return c.send_request<echo>("hi"); };
//     auto sent = co_await pool->send_request(ask);
//     if (sent) auto result = co_await std::move(*sent);
//
// An operation that takes a client_reuse_hint shares its connection with others: it gets the shared
// connection with the fewest calls in flight. A new connection is made if each shared one has
// `reuse_limit` or more calls in flight and there are fewer than `max_connection` of them. An
// operation without the hint has a connection of its own until the operation ends; such connections
// do not count towards `max_connection` in the meantime.
//
// The pool has no thread. Each send_request() drops connections that broke, and pings those that
// have been idle for `host_alive_detect_duration`. It also closes connections that were unused for
// `idle_timeout`, the newest first, until it meets one that was used or only one is left. A pool
// that is not used does none of this.
//
// Threads: thread-safe. An operation runs on the I/O thread that awaits send_request(), or on one
//   of `threads` if another kind of thread awaits it.
// Lifetime: each operation keeps the pool alive, so the program may drop it at any time.
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
#include "lib/rpc/pool_waiters.h"

namespace verbena::rpc {

// The first parameter of an operation that can share its connection.
struct client_reuse_hint {};

struct client_pool_config {
	std::size_t max_connection = 100;  // the most shared connections; 0 counts as 1
	int connect_retry_count = 3;  // attempts after the first one
	// Another connection is made when each shared one has this number of calls in flight; 0 or
	// less: 24 over RDMA, 160 over TCP.
	int reuse_limit = -1;
	std::chrono::milliseconds reconnect_wait_time{1'000};  // between two attempts to connect
	std::chrono::milliseconds idle_timeout{30'000};  // a connection unused this long may be closed
	// Idle time before a ping; 0: none.
	std::chrono::milliseconds host_alive_detect_duration{30'000};
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

	// Runs `operation(client_reuse_hint, client)` or `operation(client)`, which returns a Lazy.
	// Returns a Lazy of the operation's result, or of errc::not_connected if no connection could be
	// made; error_text() says why. With the hint the result must not be void.
	template <class Operation> auto send_request(Operation operation) {
		if constexpr (std::is_invocable_v<Operation&, client_reuse_hint, C&>)
			return run_shared(this->shared_from_this(), std::move(operation));
		else return run_alone(this->shared_from_this(), std::move(operation));
	}

	// The number of connections that are up.
	std::size_t total_client_count() const {
		return count([](const Entry&) { return true; });
	}
	// The number of those that have no call in flight and that no operation has for itself.
	std::size_t free_client_count() const {
		return count([](const Entry& each) { return !each.alone && each.client->get_pipeline_size() == 0; });
	}
	// The number of the other ones.
	std::size_t busy_client_count() const { return total_client_count() - free_client_count(); }
	// Whether the last attempt to connect succeeded; false before the first one.
	bool is_alive() const { return alive_.load(std::memory_order_relaxed); }
	// One sentence about the last attempt to connect that failed; empty if none did.
	std::string error_text() const {
		const std::lock_guard guard(lock_);
		return error_;
	}
	// Removes all connections from the pool: each closes when the operations that use it have
	// ended. The next operation makes a new one.
	void clear() {
		const std::lock_guard guard(lock_);
		entries_.clear();
	}

private:
	using Time = std::chrono::steady_clock::time_point;
	struct Entry {
		std::shared_ptr<C> client;
		bool alone = false;  // one operation has this connection for itself
		Time used;  // when an operation last got this connection
		Time asked;  // when this connection was last considered for a ping
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
	// Makes a connection that one operation had for itself available to others again.
	struct GiveBack {
		client_pool& pool;
		C* client;
		~GiveBack() {
			{
				const std::lock_guard guard(pool.lock_);
				for (Entry& each : pool.entries_)
					if (each.client.get() == client) each.alone = false;
			}
			pool.waiters_.wake();
		}
	};

	// Returns a connection for one operation, or null if none could be made. While the limit is
	// reached by attempts of other callers, waits for the end of one of them.
	Lazy<std::shared_ptr<C>> get(bool alone) {
		IoThread& here = IoThread::current() != nullptr ? *IoThread::current() : threads_.next();
		co_await here.on();
		co_await check_idle_connections();
		for (int attempt = 0; attempt <= settings_.connect_retry_count; ++attempt) {
			Choice choice = choose(alone);
			for (const std::uint64_t failed = choice.failed; choice.waits() && choice.failed == failed;) {
				const PoolWaiters::Place place(waiters_, here.loop());
				choice = choose(alone);
				if (choice.waits() && choice.failed == failed) co_await place.woken();
			}
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

	// An attempt to connect, from when choose() has counted it in connecting_ until it is over.
	struct Connecting {
		client_pool& pool;
		~Connecting() {
			{
				const std::lock_guard guard(pool.lock_);
				--pool.connecting_;
			}
			pool.waiters_.wake();
		}
	};
	// Records the outcome of an attempt to connect.
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

	// The decision for one operation: use `client`; or make a connection (`connects`), which
	// connecting_ counts already; or wait, because attempts of other callers have reached the
	// limit.
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

	// Pings idle connections, and drops those that do not answer or were unused too long.
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

	const std::string url_;
	const config settings_;
	IoThreads& threads_;
	const std::size_t reuse_limit_;
	mutable std::mutex lock_;  // guards the members from here to error_
	std::vector<Entry> entries_;
	std::size_t connecting_ = 0;  // attempts in progress
	std::uint64_t failed_ = 0;  // attempts that failed
	std::string error_;
	std::atomic<bool> alive_{false};
	PoolWaiters waiters_;  // callers that wait for the attempts of others
};

}  // namespace verbena::rpc
