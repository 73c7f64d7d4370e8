// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/server.h"

#include <algorithm>

#include "lib/channel/transports_by_address.h"
#include "lib/rpc/protection.h"
#include "lib/verbs/local_device.h"

namespace verbena::rpc {
namespace {

using async::Task;

Task<void> no_work() { co_return; }

// Runs `work` on the thread, and blocks until it has returned its result.
template <class Work> auto on_thread(IoThread& thread, Work work) {
	std::promise<std::invoke_result_t<Work>> result;
	thread.loop().post([&] { result.set_value(work()); });
	return result.get_future().get();
}

}  // namespace

// An I/O thread and its connections.
//
// Threads: counters and draining may be read by any thread; the rest belongs to `thread`.
// Invariants: `thread` is the last member, so that it ends before the data it uses.
struct Server::Worker {
	explicit Worker(const async::LoopOptions& options) : thread(options) {}
	// `use` may end the connection: the list is rebuilt while it is walked.
	template <class Use> void for_each(Use use) {
		async::List<ServerConnection> all;
		all.splice(connections);
		while (ServerConnection* each = all.pop_front()) {
			connections.push_back(*each);
			use(*each);
		}
	}
	ServerCounters counters;
	async::List<ServerConnection> connections;
	std::atomic<bool> draining{false};
	channel::RcTransport* transport = nullptr;
	IoThread thread;
};

channel::Described describe(const server_config& config) {
	const auto text = [](std::uint64_t number) { return std::to_string(number); };
	const ConnectionLimits& limits = config.limits;
	channel::Described all{{"body_max", text(limits.frame.body_max)},
		{"attachment_max", text(limits.frame.attachment_max)}, {"in_flight_max", text(limits.in_flight_max)},
		{"unsent_max", text(limits.unsent_max)}, {"decoded_max", text(limits.decoded_max)},
		{"decoded_max_authenticated", text(limits.decoded_max_authenticated)}, {"held_max", text(limits.held_max)},
		{"streams_max", text(limits.streams_max)}, {"stream_window", text(limits.stream_window)},
		{"items_max", text(limits.items_max)}, {"memory_max", text(config.memory_max)},
		{"message_max", text(config.tcp.message_max)},
		{"drain_patience_ms", text(static_cast<std::uint64_t>(config.drain_patience.count()))}};
	for (auto& each :
		channel::describe(channel::AcceptorOptions{.protection = channel::ClearText{}, .tcp = config.tcp}))
		all.push_back(std::move(each));
	return all;
}

Server::Server(server_config config) : config_(std::move(config)) {
	if (config_.limits.streams_max > 0) register_handler<detail::protocol>(protocol_function);
}
Server::Server(unsigned threads, std::uint16_t port, std::string address)
	: Server(server_config{.address = std::move(address), .port = port, .thread_num = threads}) {}

Server::~Server() { stop(); }

void Server::add(std::uint32_t id, Handler handler, std::string_view name) {
	check(!running_, "functions must be registered before the server starts");
	if (!name.empty()) handler.name = name;
	const bool added = functions_.try_emplace(id, std::move(handler)).second;
	check(added,
		"a function of this name, or one whose name has the same hash, is registered already: register it under "
		"another name");
}

err_code Server::fail(errc code, std::string text) {
	error_ = std::move(text);
	config_.log(error_);
	return code;
}

err_code Server::open() {
	auto protection = make_protection(Side::server, ssl_);
	if (!protection && (ssl_ || ibv_)) return fail(errc::open_error, protection.error());
	const auto where = async::resolve(config_.address, config_.port);
	if (!where) return fail(errc::bad_address, where.error());
	auto listener = async::listen(setup_, *where);
	if (!listener) return fail(errno == EADDRINUSE ? errc::address_in_used : errc::listen_error, listener.error());

	std::vector<channel::Acceptor::Home> homes;
	for (unsigned i = 0; i < std::max(config_.thread_num, 1u); ++i) {
		workers_.push_back(std::make_unique<Worker>(async::LoopOptions{.spin = config_.spin}));
		Worker& worker = *workers_.back();
		if (ibv_) {
			const auto numbers = ibv_->rc();
			if (!numbers) return fail(errc::open_error, numbers.error());
			const bool is_chosen_here = ibv_->device.empty() && !ibv_->gid_index;
			const lib::DeviceRequest wish{.device = is_chosen_here ? lib::device_at(where->get()) : ibv_->device,
				.gid_index = ibv_->gid_index,
				.both_ends_on_this_host = async::is_loopback(*where)};
			const auto opened = on_thread(worker.thread, [&] { return worker.thread.transport(wish, *numbers); });
			if (!opened) return fail(errc::open_error, opened.error());
			worker.transport = *opened;
		}
		homes.push_back({.loop = &worker.thread.loop(),
			.transport = worker.transport,
			.deliver = [this, &worker](std::unique_ptr<channel::Channel> channel) { take(worker, std::move(channel)); },
			.transport_at = transports_at(worker, *where)});
	}
	channel::AcceptorOptions options{.protection = channel::ClearText{}, .tcp = config_.tcp};
	options.clear_advice = "call init_ibv() or init_ssl() in this server, before it starts";
	if (ssl_ || ibv_) {
		options.protection = *protection;
		options.clear_advice = "call init_ssl() in the client too, before it connects";
	}
	if (!ssl_) {
		options.tcp_protection = channel::ClearText{};
		config_.log(
			"TCP is served in plain text: clients are not authenticated and nothing is encrypted; call init_ssl()");
	}
	acceptor_ = std::make_unique<channel::Acceptor>(setup_, std::move(*listener), std::move(homes), std::move(options),
		[this](const std::string& what) { config_.log(what); });
	port_ = acceptor_->port();
	acceptor_->start();
	return errc::ok;
}

// A server at all addresses serves each client over the device at whose address the client arrives,
// unless init_ibv() names the device.
std::function<channel::RcTransport&(const async::Address&)> Server::transports_at(
	Worker& worker, const async::Address& where) {
	if (!ibv_) return {};
	const auto open = [this, &worker](const std::string& device) -> channel::RcTransport* {
		const auto opened = worker.thread.transport({.device = device}, *ibv_->rc());
		return opened ? *opened : nullptr;
	};
	const lib::DeviceRequest wish{.device = ibv_->device, .gid_index = ibv_->gid_index};
	return channel::transport_by_address(where, wish, *worker.transport, open);
}

// Called on the worker's thread with a connection that is set up.
void Server::take(Worker& worker, std::unique_ptr<channel::Channel> channel) {
	const auto connection = std::make_shared<ServerConnection>(
		worker.thread, std::move(channel), functions_, config_.limits, worker.counters, budget_, ++connections_made_);
	worker.connections.push_back(*connection);
	worker.thread.loop().spawn(ServerConnection::serve(connection));
	if (worker.draining) connection->drain();
}

err_code Server::start() {
	if (running_.exchange(true)) return errc::server_has_ran;
	const err_code opened = open();
	if (!opened) serve();
	drain();
	return opened;
}

Server::Started Server::async_start() {
	std::promise<err_code> ended;
	Started started(ended.get_future().share());
	if (running_.exchange(true)) {
		ended.set_value(errc::server_has_ran);
		return started;
	}
	if (const err_code opened = open()) {
		drain();
		ended.set_value(opened);
		return started;
	}
	runner_ = std::thread([this, ended = std::move(ended)]() mutable {
		serve();
		drain();
		ended.set_value(errc::ok);
	});
	return started;
}

void Server::serve() {
	const std::lock_guard serving(ended_lock_);
	while (!stopping_) setup_.run_until([this] { return stopping_.load(); });
	acceptor_->stop();
}

// Ends all connections and threads. Goodbyes ask the clients to send no more; calls in flight have
// `drain_patience` to be answered; then connections are closed and coroutines destroyed.
void Server::drain() {
	const std::lock_guard serving(ended_lock_);
	for (const auto& worker : workers_)
		worker->thread.loop().post([&worker = *worker] {
			worker.draining = true;
			worker.for_each([](ServerConnection& each) { each.drain(); });
		});
	const Nanoseconds deadline = monotonic_now() + static_cast<Nanoseconds>(config_.drain_patience.count()) * 1'000'000;
	bool drained = workers_.empty();
	setup_.spawn(until_drained(deadline, drained));
	while (!drained) setup_.run_until([&] { return drained; });
	for (const auto& worker : workers_) {
		const auto end_all = [&] {
			worker->for_each([](ServerConnection& each) { each.close(); });
			// A coroutine that visits another thread must not be destroyed: wait until it is back.
			if (worker->thread.away() > 0) return false;
			while (ServerConnection* connection = worker->connections.pop_front()) {
				const auto alive = connection->shared_from_this();
				connection->abandon_calls();
			}
			return true;
		};
		while (!on_thread(worker->thread, end_all)) worker->thread.wait_until_none_away();
	}
	// Connections that are being set up may wait for a worker's thread: the threads end first.
	workers_.clear();
	setup_.complete(no_work());
	setup_.abandon_spawned();
	acceptor_.reset();
	stopping_ = false;
	running_ = false;
}

Task<void> Server::until_drained(Nanoseconds deadline, bool& drained) {
	// A connection may be on its way to a thread that is not draining yet, so an empty count means
	// nothing before all threads are draining.
	const auto busy = [this] {
		return connection_count() > 0 ||
			std::ranges::any_of(workers_, [](const auto& worker) { return !worker->draining; });
	};
	while (busy() && monotonic_now() < deadline) co_await setup_.sleep_for(1'000'000);
	drained = true;
}

void Server::request_stop() {
	stopping_ = true;
	setup_.stop();
}

void Server::stop() {
	if (running_) request_stop();
	if (runner_.joinable()) runner_.join();
	// Another thread may be in start(): it holds the lock while it serves and while it drains.
	while (running_) {
		const std::lock_guard until_ended(ended_lock_);
	}
}

RdmaUse Server::rdma() {
	RdmaUse all;
	for (const auto& worker : workers_) all += on_thread(worker->thread, [&] { return worker->thread.rdma(); });
	return all;
}

std::size_t Server::connection_count() const {
	std::size_t count = 0;
	for (const auto& worker : workers_) count += worker->counters.connections.load(std::memory_order_relaxed);
	return count;
}

Server::Totals Server::totals() const {
	Totals totals{.connections = connections_made_};
	for (const auto& worker : workers_) {
		const ServerCounters& each = worker->counters;
		const auto add = [](std::uint64_t& sum, const std::atomic<std::uint64_t>& counter) {
			sum += counter.load(std::memory_order_relaxed);
		};
		add(totals.requests, each.requests);
		add(totals.errors, each.errors);
		add(totals.cancelled, each.cancelled);
		add(totals.expired, each.expired);
		add(totals.faults, each.faults);
		add(totals.over_budget, each.over_budget);
		add(totals.budget_waits, each.budget_waits);
		add(totals.frames_sent, each.frames_sent);
		add(totals.messages_sent, each.messages_sent);
		add(totals.messages_received, each.messages_received);
	}
	return totals;
}

}  // namespace verbena::rpc
