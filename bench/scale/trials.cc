// SPDX-License-Identifier: Apache-2.0
#include "bench/scale/trials.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "bench/far_end/round_trip.h"
#include "bench/scale/capacity.h"
#include "bench/scale/cell_run.h"
#include "bench/scale/process_plan.h"
#include "bench/scale/repetition.h"
#include "bench/scale/rows.h"
#include "lib/async/selector.h"

namespace verbena::scale {
namespace {

constexpr std::uint32_t clients_most = 100'000;
// Requests of redis-benchmark in each second of a run of ours.
constexpr double redis_requests_per_s = 30'000;

// The core-to-core round trip between two processes that are not pinned, like those of a run. Empty
// if the fork failed or the other process did not answer in time.
std::optional<double> core_to_core_ns() {
	bench::RoundTrip page = bench::RoundTrip::create();
	page.reset();
	const pid_t other = fork();
	if (other == 0) {
		page.answer();
		std::_Exit(0);
	}
	if (other < 0) return {};
	const auto took = page.ask();
	waitpid(other, nullptr, 0);
	return took;
}

// The reason why a cell cannot be run here; empty if it can.
std::string hindrance(const RunOptions& run) {
	const SwarmOptions& swarm = run.swarm;
	if (run.engine == Engine::threads && swarm.clients > engine_threads_max) return too_many_threads();
	if (run.engine == Engine::threads && swarm.logical())
		return "--engine threads has no logical clients: leave out --qps, or use --engine epoll";
	if (run.engine == Engine::uring)
		if (const auto chosen = async::make_selector(async::SelectorKind::uring); !chosen.refusal.empty())
			return fmt::format("the kernel refuses io_uring ({})", chosen.refusal);
	if (swarm.transport == Transport::tcp && swarm.connect_by == ConnectBy::rdmacm) return std::string(tcp_by_rdmacm);
	const auto plan = plan_processes(swarm, run.processes, true, descriptors_max());
	return plan ? "" : plan.error();
}

// A cell whose clients and server are ours.
class CellTrial : public bench::Trial {
public:
	CellTrial(RunOptions run, const Report& report)
		: run_(std::move(run)),
		  cell_(columns_of(cell_of(run_.swarm, run_.engine, run_.stalled, true))),
		  hindrance_(hindrance(run_)),
		  report_(report) {}

	bool can_run() const override { return hindrance_.empty(); }

	bench::Measured measure(const bench::ShowStep& show) override {
		const auto trip = core_to_core_ns();
		static std::uint32_t runs = 0;
		run_.swarm.first_address = first_address_of(runs++);
		auto run = run_cell(run_,
			[&](const Moment& moment) { show(fmt::format("{} ({} connected)", moment.doing, moment.connected)); });
		if (!run) return {.repetition = failed_repetition(cell_, run.error()), .failed = true};
		run->round_trip_ns = trip;
		// Later repetitions usually fail in the same way.
		for (const std::string& each : run->first_failures)
			if (!has_reported_) report_(fmt::format("{}: {}", experiment().title(cell_), each));
		has_reported_ |= !run->first_failures.empty();
		return {.repetition = json_of(*run)};
	}

	bench::Json row(bench::Json repetitions) const override {
		bench::Json row = row_of(cell_, std::move(repetitions));
		if (!can_run()) row["reason"] = hindrance_;
		return row;
	}

private:
	RunOptions run_;
	const bench::Json cell_;
	const std::string hindrance_;
	const Report report_;
	bool has_reported_ = false;
};

class RedisTrial : public bench::Trial {
public:
	RedisTrial(std::uint32_t clients, const Cells& cells)
		: clients_(clients),
		  size_(cells.size),
		  requests_(
			  std::max(static_cast<std::uint64_t>(redis_requests_per_s * cells.seconds), clients * std::uint64_t{4})),
		  cell_(redis_columns(clients, cells.size)),
		  plan_(plan_redis(clients, descriptors_max())) {}

	bool can_run() const override { return plan_.has_value(); }

	bench::Measured measure(const bench::ShowStep&) override {
		const auto trip = core_to_core_ns();
		const auto run = measure_redis(clients_, size_, requests_);
		if (!run) return {.repetition = failed_repetition(cell_, run.error()), .failed = true};
		return {.repetition = json_of(*run, cell_, trip)};
	}

	bench::Json row(bench::Json repetitions) const override {
		bench::Json row = row_of(cell_, std::move(repetitions));
		if (!can_run()) row["reason"] = plan_.error();
		return row;
	}

private:
	const std::uint32_t clients_, size_;
	const std::uint64_t requests_;
	const bench::Json cell_;
	const std::expected<void, std::string> plan_;
};

// The first value of each list but `clients`.
RunOptions first_of(const Cells& cells, const Protections& protections, std::uint64_t clients) {
	return {.swarm = {.hosts = {"127.0.0.1"},
				.protection = protections.client,
				.wish = {.both_ends_on_this_host = true},
				.transport = cells.transports.front(),
				.connect_by = cells.connects.front(),
				.clients = static_cast<std::uint32_t>(clients),
				.queue_pairs = static_cast<std::uint32_t>(cells.queue_pairs.front()),
				.messages = cells.messages,
				.handshakes = cells.handshakes,
				.message_bytes = cells.size,
				.window = cells.window,
				.think = 0,
				.rate = static_cast<double>(cells.rates.front()),
				.warmup = static_cast<Nanoseconds>(cells.warmup_s * 1e9),
				.duration = static_cast<Nanoseconds>(cells.seconds * 1e9)},
		.server_protection = protections.server,
		.engine = cells.engines.front(),
		.stalled = static_cast<std::uint32_t>(cells.stalled.front()),
		.processes = cells.processes,
		.server_spin = Nanoseconds{cells.poll_us} * 1000};
}

// Replaces each run by one for each value of a list.
template <class Value, class Set>
void multiply(std::vector<RunOptions>& runs, const std::vector<Value>& values, Set&& set) {
	std::vector<RunOptions> all;
	for (const RunOptions& run : runs)
		for (const Value value : values) set(all.emplace_back(run), value);
	runs = std::move(all);
}

std::vector<RunOptions> combinations(const Cells& cells, const Protections& protections) {
	std::vector<RunOptions> runs{first_of(cells, protections, cells.clients.front())};
	multiply(runs, cells.engines, [](RunOptions& run, Engine engine) { run.engine = engine; });
	multiply(
		runs, cells.rates, [](RunOptions& run, std::uint64_t rate) { run.swarm.rate = static_cast<double>(rate); });
	multiply(runs, cells.transports, [](RunOptions& run, Transport transport) { run.swarm.transport = transport; });
	multiply(runs, cells.connects, [](RunOptions& run, ConnectBy by) { run.swarm.connect_by = by; });
	multiply(runs, cells.stalled,
		[](RunOptions& run, std::uint64_t stalled) { run.stalled = static_cast<std::uint32_t>(stalled); });
	multiply(runs, cells.queue_pairs,
		[](RunOptions& run, std::uint64_t shared) { run.swarm.queue_pairs = static_cast<std::uint32_t>(shared); });
	multiply(runs, cells.clients,
		[](RunOptions& run, std::uint64_t clients) { run.swarm.clients = static_cast<std::uint32_t>(clients); });
	// TCP cannot connect by rdma_cm. Skip that cell if TCP has a cell with another --connect;
	// otherwise keep it, as a row that says why it was not run.
	if (cells.connects.size() > 1)
		std::erase_if(runs, [](const RunOptions& run) {
			return run.swarm.transport == Transport::tcp && run.swarm.connect_by == ConnectBy::rdmacm;
		});
	return runs;
}

// Adds to each RDMA cell the same cell with one optimization switched off, for each of them.
void add_ablation(std::vector<RunOptions>& runs) {
	std::vector<RunOptions> all;
	for (const RunOptions& run : runs) {
		all.push_back(run);
		if (!hindrance(run).empty() || run.swarm.transport == Transport::tcp) continue;
		for (const Without what : {Without::coalescing, Without::pooling, Without::batched_polling})
			all.emplace_back(run).swarm.without = what;
	}
	runs = std::move(all);
}

std::vector<RunOptions> capacity_runs(const Cells& cells, const Protections& protections) {
	const auto [least, most] = std::ranges::minmax(cells.clients);
	// A few messages each: the cells measure memory, not the rate.
	Cells one = cells;
	one.rates = one.stalled = {0};
	one.connects = {ConnectBy::tls_psn};
	one.seconds = one.warmup_s = 0;
	one.messages = std::max(cells.messages, 10u);
	std::vector<RunOptions> runs;
	const auto add = [&](ClientKind kind, Transport transport, std::uint64_t scale_up, std::uint64_t scale_down) {
		one.transports = {transport};
		one.queue_pairs = {kind == ClientKind::logical ? 4u : 0u};
		one.engines = {kind == ClientKind::thread ? Engine::threads : Engine::epoll};
		const Protections clear{channel::ClearText{}, channel::ClearText{}};
		for (const std::uint64_t clients : {least, most})
			runs.push_back(first_of(one, kind == ClientKind::tcp_clear ? clear : protections,
				std::min<std::uint64_t>(clients * scale_up / scale_down, clients_most)));
	};
	add(ClientKind::rdma, Transport::rdma, 1, 1);
	add(ClientKind::tcp_tls, Transport::tcp, 1, 1);
	add(ClientKind::tcp_clear, Transport::tcp, 1, 1);
	add(ClientKind::logical, Transport::rdma, 10, 1);
	add(ClientKind::thread, Transport::rdma, 1, 10);
	return runs;
}

}  // namespace

std::string settings_of(const Cells& cells) {
	return fmt::format("{}seconds {}, warmup {} s, messages {}, processes {}, handshakes {}, poll {} us",
		cells.capacity ? "capacity, " : "", cells.seconds, cells.warmup_s, cells.messages, cells.processes,
		cells.handshakes, cells.poll_us);
}

std::vector<std::unique_ptr<bench::Trial>> trials_of(
	const Cells& cells, const Protections& protections, const Report& report) {
	auto runs = cells.capacity ? capacity_runs(cells, protections) : combinations(cells, protections);
	if (cells.ablation) add_ablation(runs);
	std::vector<std::unique_ptr<bench::Trial>> trials;
	std::vector<bench::Json> known;  // a number that stands twice in a list counts once
	for (RunOptions& run : runs) {
		const bench::Json cell = columns_of(cell_of(run.swarm, run.engine, run.stalled, true));
		if (std::ranges::find(known, cell) != known.end()) continue;
		known.push_back(cell);
		trials.push_back(std::make_unique<CellTrial>(std::move(run), report));
	}
	if (cells.with_redis)
		for (auto each = cells.clients.begin(); each != cells.clients.end(); ++each)
			if (std::find(cells.clients.begin(), each, *each) == each)
				trials.push_back(std::make_unique<RedisTrial>(static_cast<std::uint32_t>(*each), cells));
	return trials;
}

}  // namespace verbena::scale
