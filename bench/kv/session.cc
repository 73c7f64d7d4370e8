// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/session.h"

#include <sched.h>

#include <thread>

#include "bench/far_end/failure.h"
#include "bench/far_end/launch.h"
#include "bench/kv/worker.h"
#include "lib/kv/service.h"
#include "lib/verbs/device.h"

namespace verbena::kvbench {
namespace {

template <std::size_t size> void put(char (&to)[size], const std::string& text) { text.copy(to, size - 1); }

// A run that the clients are to do, after the round trip between two cores if `asks`.
struct Order {
	Cell cell;
	bool asks = false;
};

// Keeps the calling thread on one core while it exists, so that the round trip is one between two
// cores. The runs themselves are not pinned, because each process has several threads.
class OnCore {
public:
	explicit OnCore(std::optional<int> core) {
		CPU_ZERO(&before_);
		if (core && sched_getaffinity(0, sizeof before_, &before_) == 0) bench::pin_to(*core);
	}
	~OnCore() {
		if (CPU_COUNT(&before_) > 0) sched_setaffinity(0, sizeof before_, &before_);
	}
	OnCore(const OnCore&) = delete;
	OnCore& operator=(const OnCore&) = delete;

private:
	cpu_set_t before_;
};

std::optional<int> core_of_parent() {
	const auto cores = bench::two_cores();
	return cores ? std::optional(cores->first) : std::nullopt;
}
std::optional<int> core_of_clients() {
	const auto cores = bench::two_cores();
	return cores ? std::optional(cores->second) : std::nullopt;
}

double ask(bench::RoundTrip& page) {
	const OnCore pinned(core_of_clients());
	return page.ask().value_or(0);
}

void answer(bench::RoundTrip& page) {
	const OnCore pinned(core_of_parent());
	page.answer();
}

// Fills in the facts about the device that the server does not have.
void describe_device(const lib::DeviceRequest& wish, Served& served) {
	const auto device = lib::open_best(wish);
	if (!device) return;
	put(served.link, lib::link_text(*device));
	served.software = device->choice.software;
}

// The server process: reports its port or an error, and serves until it is killed. It answers each
// byte with the number of its memory registrations.
void serve(const SessionOptions& options, int fd) {
	Served served;
	const lib::DeviceRequest wish{.device = options.device, .both_ends_on_this_host = true};
	kv::Service service({.where = async::resolve("127.0.0.1", 0).value(),
		.protection = options.server_protection,
		.wish = wish,
		.settings = options.settings,
		.server = {.eager_max = options.settings.eager_max},
		.spin = options.spin});
	if (const auto started = service.start(); !started) {
		put(served.error, started.error());
		send_value(fd, served);
		return;
	}
	const channel::Path path = service.path();
	served.port = service.port();
	served.mtu = path.mtu;
	put(served.device, path.device);
	put(served.gid, path.gid);
	describe_device(wish, served);
	if (!send_value(fd, served)) return;
	const std::jthread answers([&] {
		for (char question = 0; receive_value(fd, question);)
			if (!send_value(fd, service.counts().registrations.load())) return;
	});
	service.run();
}

std::expected<std::unique_ptr<kv::Session>, std::string> open_session(
	const SessionOptions& options, std::uint16_t port) {
	// The memory limit in the options is the store's; clients have the default.
	kv::Settings settings = options.settings;
	settings.memory = kv::Settings{}.memory;
	return kv::Session::open({.host = "127.0.0.1",
		.port = port,
		.protection = options.client_protection,
		.device = options.device,
		.tcp = options.tcp,
		.settings = settings,
		.spin = options.spin});
}

// Reports once the worker has done an operation.
async::Task<void> report_when_at_work(async::Loop& loop, const Worker& worker, int fd) {
	const std::uint64_t before = worker.operations();
	while (worker.operations() == before) co_await loop.sleep_for(1'000'000);
	send_value(fd, Repetition{});
}

// A client that will be stopped. It reports when its operations are under way and never runs out of
// them, so it is in the middle of a rendezvous whenever it is stopped. Clients of even and odd
// index SET by the two forms of rendezvous.
void stall(const SessionOptions& options, std::uint16_t port, std::uint32_t index, int fd) {
	auto session = open_session(options, port);
	if (!session) return;
	Worker worker(**session, {.first_client = measured_clients_max + index});
	Cell cell{.proto = options.tcp ? Proto::eager : Proto::rndv,
		.form = index % 2 == 0 ? Form::write : Form::read,
		.size = 64 << 10,
		.window = 16,
		.warmup = 0,
		.iters = 200};
	if (const Repetition first = worker.run(cell); first.failure[0] != '\0') {
		send_value(fd, first);
		return;
	}
	(*session)->loop().spawn(report_when_at_work((*session)->loop(), worker, fd));
	cell.iters = ~0u;
	cell.seconds_max = 3600;
	worker.run(cell);
}

// The process of clients: runs each cell that it reads, and reports it.
void work(const SessionOptions& options, std::uint16_t port, bench::RoundTrip& page, int fd) {
	auto session = open_session(options, port);
	std::optional<Worker> worker;
	if (session) worker.emplace(**session, WorkerOptions{.one_sided = options.settings.one_sided > 0});
	for (Order order; receive_value(fd, order);) {
		const double core_to_core_ns = order.asks ? ask(page) : 0;
		Repetition run;
		if (worker) run = worker->run(order.cell);
		else fail(run, session.error());
		run.core_to_core_ns = core_to_core_ns;
		if (!send_value(fd, run)) return;
	}
}

}  // namespace

Session::Session(const SessionOptions& options) {
	server_.emplace([&](int fd) { serve(options, fd); });
	if (!receive_value(server_->fd(), served_)) throw bench::Failure("the server did not start");
	if (served_.error[0] != '\0') throw bench::Failure(served_.error);
	start_stalled(options);
	clients_.emplace([&](int fd) { work(options, served_.port, page_, fd); });
}

void Session::start_stalled(const SessionOptions& options) {
	for (std::uint32_t i = 0; i < options.stalled; ++i) {
		const Child& child = stalled_.emplace_back([&, i](int fd) { stall(options, served_.port, i, fd); });
		Repetition begun;
		if (!receive_value(child.fd(), begun) || begun.failure[0] != '\0')
			throw bench::Failure("a client that was to be stalled did not begin");
		child.stop();
	}
}

Repetition Session::run(const Cell& cell) {
	Repetition run;
	const Order order{.cell = cell, .asks = runs_until_ask_ == 0};
	page_.reset();
	if (send_value(clients_->fd(), order)) {
		if (order.asks) answer(page_);
		if (receive_value(clients_->fd(), run)) {
			if (!order.asks) --runs_until_ask_;
			else if (run.core_to_core_ns == 0) runs_until_ask_ = runs_without_ask;
			return run;
		}
	}
	throw bench::Failure("the process of clients ended early");
}

std::uint64_t Session::server_registrations() {
	std::uint64_t registrations = 0;
	return send_value(server_->fd(), 'r') && receive_value(server_->fd(), registrations) ? registrations : 0;
}

}  // namespace verbena::kvbench
