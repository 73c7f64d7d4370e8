// verbena bench scale: its command line, its interleaved runs, and its table.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "base/sizes.h"
#include "base/statistics.h"
#include "bench/connect/rows.h"
#include "bench/far_end/round_trip.h"
#include "bench/scale/capacity.h"
#include "bench/scale/experiment.h"
#include "bench/scale/redis.h"
#include "bench/scale/rows.h"
#include "bench/sweep/progress_line.h"
#include "lib/async/selector.h"
#include "tools/commands.h"
#include "tools/option_values.h"
#include "tools/output_options.h"
#include "tools/trust_options.h"

namespace verbena::tools {
namespace {

using namespace scale;

struct Options {
	std::string clients_text = "10,100,1000,5000,10000,20000", transports_text = "rdma,tcp", rates_text = "0",
				qps_text = "0", engines_text = "epoll", connects_text = "tls-psn", stalled_text = "0";
	std::vector<std::uint64_t> clients, rates, queue_pairs, stalled;
	std::vector<Transport> transports;
	std::vector<ConnectBy> connects;
	std::vector<Engine> engines;
	std::uint32_t messages = 0, size = 64, window = 1, reps = 5, processes = 0, poll_us = 50, handshakes = 64;
	double seconds = 2, warmup_s = 0.5;
	bool with_redis = false, capacity = false, ablation = false;
	OutputOptions output;
	channel::TrustOptions trust;
	std::string command_line;
};

// One row of the table: its experiment and the repetitions that have run so far.
struct Cell {
	ExperimentOptions experiment;
	std::vector<Outcome> runs;
	std::string not_run, failure;  // why the cell cannot be run; why a repetition failed
	std::optional<ClientKind> kind;  // with --capacity: the kind of client that the cell measures
};

struct RedisCell {
	std::uint32_t clients = 0;
	std::vector<double> rates;
	std::uint32_t connections = 0;
};

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

template <class A, class B>
std::vector<std::pair<A, B>> pairs_of(const std::vector<A>& outer, const std::vector<B>& inner) {
	std::vector<std::pair<A, B>> pairs;
	for (const A a : outer)
		for (const B b : inner) pairs.emplace_back(a, b);
	return pairs;
}

// The reason why a cell cannot be run here; empty if it can.
std::string hindrance(const ExperimentOptions& experiment) {
	const SwarmOptions& swarm = experiment.swarm;
	if (experiment.engine == Engine::threads && swarm.clients > engine_threads_max) return too_many_threads();
	if (experiment.engine == Engine::threads && swarm.logical())
		return "--engine threads has no logical clients: leave out --qps, or use --engine epoll";
	if (experiment.engine == Engine::uring)
		if (const auto chosen = async::make_selector(async::SelectorKind::uring); !chosen.refusal.empty())
			return fmt::format("the kernel refuses io_uring ({})", chosen.refusal);
	if (swarm.transport == Transport::tcp && swarm.connect_by == ConnectBy::rdmacm) return std::string(tcp_by_rdmacm);
	const auto plan = plan_processes(swarm, experiment.processes, true, scale::descriptors_max());
	return plan ? "" : plan.error();
}

std::vector<Cell> cells_of(
	const Options& options, const channel::Protection& client, const channel::Protection& server) {
	std::vector<Cell> cells;
	const auto add = [&](Transport transport, ConnectBy by, Engine engine, std::uint64_t rate, std::uint64_t stalled,
						 std::uint64_t queue_pairs, std::uint64_t clients) {
		Cell& cell = cells.emplace_back();
		cell.experiment = {.swarm = {.hosts = {"127.0.0.1"},
							   .protection = client,
							   .wish = {.both_ends_on_this_host = true},
							   .transport = transport,
							   .connect_by = by,
							   .clients = static_cast<std::uint32_t>(clients),
							   .queue_pairs = static_cast<std::uint32_t>(queue_pairs),
							   .messages = options.messages,
							   .handshakes = options.handshakes,
							   .message_bytes = options.size,
							   .window = options.window,
							   .think = 0,
							   .rate = static_cast<double>(rate),
							   .warmup = static_cast<Nanoseconds>(options.warmup_s * 1e9),
							   .duration = static_cast<Nanoseconds>(options.seconds * 1e9)},
			.server_protection = server,
			.engine = engine,
			.stalled = static_cast<std::uint32_t>(stalled),
			.processes = options.processes,
			.server_spin = Nanoseconds{options.poll_us} * 1000};
		cell.not_run = hindrance(cell.experiment);
	};
	for (const auto& [engine, rate] : pairs_of(options.engines, options.rates))
		for (const auto& [transport, by] : pairs_of(options.transports, options.connects)) {
			// TCP cannot connect by rdma_cm. Skip that cell if TCP has a cell with another
			// --connect; otherwise keep it, as a row that says why it was not run.
			if (transport == Transport::tcp && by == ConnectBy::rdmacm && options.connects.size() > 1) continue;
			for (const std::uint64_t stalled : options.stalled)
				for (const auto& [queue_pairs, clients] : pairs_of(options.queue_pairs, options.clients))
					add(transport, by, engine, rate, stalled, queue_pairs, clients);
		}
	return cells;
}

// Adds to each RDMA cell the same cell with one optimization switched off, for each of them.
void add_ablation(std::vector<Cell>& cells) {
	std::vector<Cell> all;
	for (const Cell& cell : cells) {
		all.push_back(cell);
		if (!cell.not_run.empty() || cell.experiment.swarm.transport == Transport::tcp) continue;
		for (const Without what : {Without::coalescing, Without::pooling, Without::batched_polling})
			all.emplace_back(cell).experiment.swarm.without = what;
	}
	cells = std::move(all);
}

// Two cells for each kind of client, one with few clients and one with many: the slope between them
// is the cost of one more client (bench/scale/capacity.h).
std::vector<Cell> capacity_cells(
	const Options& options, const channel::Protection& client, const channel::Protection& server) {
	const auto [least, most] = std::ranges::minmax(options.clients);
	std::vector<Cell> cells;
	const auto add = [&](ClientKind kind, Transport transport, std::uint64_t scale_up, std::uint64_t scale_down) {
		for (const std::uint64_t clients : {least, most}) {
			Options one = options;
			one.clients = {std::min<std::uint64_t>(clients * scale_up / scale_down, 100'000)};
			one.rates = one.stalled = {0};
			one.connects = {ConnectBy::tls_psn};
			// A few messages each: the cells measure memory, not the rate.
			one.seconds = one.warmup_s = 0;
			one.messages = std::max(options.messages, 10u);
			one.transports = {transport};
			one.queue_pairs = {kind == ClientKind::logical ? 4u : 0u};
			one.engines = {kind == ClientKind::thread ? Engine::threads : Engine::epoll};
			const bool clear = kind == ClientKind::tcp_clear;
			Cell& cell = cells.emplace_back(
				cells_of(one, clear ? channel::ClearText{} : client, clear ? channel::ClearText{} : server).front());
			cell.kind = kind;
		}
	};
	add(ClientKind::rdma, Transport::rdma, 1, 1);
	add(ClientKind::tcp_tls, Transport::tcp, 1, 1);
	add(ClientKind::tcp_clear, Transport::tcp, 1, 1);
	add(ClientKind::logical, Transport::rdma, 10, 1);
	add(ClientKind::thread, Transport::rdma, 1, 10);
	return cells;
}

// Adds the limits that follow from the runs to the table's environment, as "capacity rdma: ...".
// The cells are those of capacity_cells(): few and many clients in turn.
void add_capacity(connect::Table& table, const std::vector<Cell>& cells) {
	Resources resources = resources_here();
	std::vector<Growth> kinds;
	for (std::size_t i = 0; i + 1 < cells.size(); i += 2) {
		if (!cells[i].kind || cells[i].runs.empty() || cells[i + 1].runs.empty()) continue;
		const Growth& growth = kinds.emplace_back(growth_of(*cells[i].kind, cells[i].runs, cells[i + 1].runs));
		resources.queue_pairs = cells[i].runs.front().server->queue_pairs_max;
		table.environment.emplace_back(
			fmt::format("capacity {}", name_of(growth.kind)), describe(limit_of(growth, resources)));
	}
	if (const std::string parts = describe_parts(kinds); !parts.empty())
		table.environment.emplace_back("capacity_parts", parts);
	table.environment.emplace_back("capacity_resources",
		fmt::format("{:.2f} GiB of memory, {} descriptors, {} threads for one process",
			static_cast<double>(resources.memory_bytes) / (1u << 30), resources.descriptors, resources.threads));
}

// An outcome that holds only what the cell was to measure, for the row of a cell that was not run.
Outcome wanted(const Cell& cell) {
	const SwarmOptions& swarm = cell.experiment.swarm;
	return {.transport = swarm.transport,
		.connect_by = swarm.connect_by,
		.engine = cell.experiment.engine,
		.without = swarm.without,
		.clients = swarm.clients,
		.queue_pairs = swarm.queue_pairs,
		.window = swarm.window,
		.messages = swarm.messages,
		.message_bytes = swarm.message_bytes,
		.handshakes = swarm.handshakes,
		.rate = swarm.rate,
		.seconds = static_cast<double>(swarm.duration) / 1e9};
}

Json row_of_cell(const Cell& cell) {
	const std::string_view connect = name_of(cell.experiment.swarm.connect_by);
	if (cell.runs.empty()) {
		Json row = row_not_run(connect, wanted(cell), cell.not_run.empty() ? cell.failure : cell.not_run);
		if (cell.not_run.empty()) row["validity"] = "invalid";
		return row;
	}
	Json row = row_of(connect, cell.runs);
	if (!cell.failure.empty()) {
		row["validity"] = "invalid";
		row["reason"] = fmt::format("repetition {}: {}", cell.runs.size() + 1, cell.failure);
	}
	return row;
}

// Adds to each row the rate that redis reached with as many clients, and the ratio of the two
// rates. The columns go before `validity`, which stays among the last.
void add_redis(std::vector<Json>& rows, const std::vector<RedisCell>& redis) {
	for (Json& row : rows) {
		const Json tail =
			Json{{"validity", row["validity"]}, {"reason", row["reason"]}, {"repetitions", row["repetitions"]}};
		for (const auto& [key, value] : tail.items()) row.erase(key);
		const auto found = std::ranges::find(redis, row["clients"].get<std::uint32_t>(), &RedisCell::clients);
		const bool known = found != redis.end() && !found->rates.empty();
		const double rate = known ? median(found->rates) : 0;
		row["redis_connections"] = known ? Json(found->connections) : Json(nullptr);
		row["redis_per_second"] = known ? Json(rate) : Json(nullptr);
		row["over_redis"] = known && row["messages_per_second"].is_number() && row["rate"] == 0.0
			? Json(row["messages_per_second"].get<double>() / rate)
			: Json(nullptr);
		row.update(tail);
	}
}

struct Results {
	std::vector<Cell> cells;
	std::vector<RedisCell> redis;
	std::vector<double> trips_ns;  // the core-to-core round trip before each run
};

std::string words_of(const ExperimentOptions& experiment) {
	const SwarmOptions& swarm = experiment.swarm;
	return fmt::format("{}{} clients, {}{}{}{}",
		experiment.engine == Engine::epoll ? "" : fmt::format("{}: ", name_of(experiment.engine)), swarm.clients,
		name_of(swarm.transport), swarm.connect_by == ConnectBy::rdmacm ? " by rdma_cm" : "",
		swarm.logical() ? fmt::format(" on {} queue pairs", swarm.queue_pairs) : "",
		swarm.rate > 0 ? fmt::format(" at {:.0f}/s", swarm.rate) : "");
}

// Runs one repetition of a cell; a failure is kept in the cell, which is not run again.
void run_cell(Cell& cell, const bench::ProgressLine& progress, std::vector<double>& trips_ns) {
	const auto trip = core_to_core_ns();
	if (trip) trips_ns.push_back(*trip);
	auto run = run_experiment(cell.experiment,
		[&](const Moment& moment) { progress.show(fmt::format("{} ({} connected)", moment.doing, moment.connected)); });
	if (!run) {
		cell.failure = run.error();
		return;
	}
	run->round_trip_ns = trip;
	// Report the first repetition in which clients failed; later ones usually fail in the same way.
	const SwarmOptions& swarm = cell.experiment.swarm;
	if (cell.runs.empty() || cell.runs.back().first_failures.empty())
		for (const std::string& each : run->first_failures)
			complain(fmt::format("{} clients over {}: {}", swarm.clients, name_of(swarm.transport), each));
	cell.runs.push_back(std::move(*run));
}

std::expected<void, std::string> run_redis(RedisCell& cell, const Options& options) {
	const auto requests = static_cast<std::uint64_t>(30'000 * options.seconds);
	const auto rate = measure_redis(
		cell.clients, options.size, std::max<std::uint64_t>(requests, cell.clients * 4ull), scale::descriptors_max());
	if (!rate) return std::unexpected(rate.error());
	cell.rates.push_back(rate->requests_per_s);
	cell.connections = rate->connections;
	return {};
}

// Runs all repetitions. Cells are interleaved, so that a disturbance of the machine affects all of
// them. The error is one of redis, which ends the measurement.
std::expected<void, std::string> run_all(const Options& options, Results& results) {
	const auto runnable = static_cast<std::size_t>(
		std::ranges::count_if(results.cells, [](const Cell& cell) { return cell.not_run.empty(); }));
	bench::ProgressLine progress(!options.output.quiet, options.reps * (runnable + results.redis.size()));
	std::uint32_t runs = 0;
	for (std::uint32_t repetition = 0; repetition < options.reps; ++repetition) {
		for (Cell& cell : results.cells) {
			if (!cell.not_run.empty() || !cell.failure.empty()) continue;
			// Each run has source addresses of its own, so that sockets in TIME_WAIT of the run
			// before it take no ports from this one.
			cell.experiment.swarm.first_address = runs++ % 1000 * 16;
			progress.next(fmt::format("{}, repetition {}", words_of(cell.experiment), repetition + 1));
			run_cell(cell, progress, results.trips_ns);
		}
		for (RedisCell& cell : results.redis) {
			progress.next(fmt::format("redis with {} clients, repetition {}", cell.clients, repetition + 1));
			if (auto ran = run_redis(cell, options); !ran) return ran;
		}
	}
	return {};
}

// Makes the table, writes it, and returns the exit code.
int write_results(const Options& options, const Results& results) {
	const std::vector<Cell>& cells = results.cells;
	connect::Table table;
	bool broken = false, impossible = false;
	for (const Cell& cell : cells) {
		const Json& row = table.rows.emplace_back(row_of_cell(cell));
		broken |= !cell.failure.empty() || (!cell.runs.empty() && row["success_percent"] != 100.0);
		impossible |= cell.failure.empty() && row["validity"] == "invalid";
	}
	if (options.with_redis) add_redis(table.rows, results.redis);
	const auto ran = std::ranges::find_if(cells, [](const Cell& cell) { return !cell.runs.empty(); });
	Outcome last = ran != cells.end() ? ran->runs.back() : Outcome{.server = ServerAccount{}};
	if (!results.trips_ns.empty()) last.round_trip_ns = median(results.trips_ns);
	table.environment = environment_of(last, options.command_line);

	if (options.capacity) add_capacity(table, cells);

	std::string error;
	const auto write = [&](const std::string& path, auto render) {
		return path.empty() || write_out(path, render(table), error);
	};
	const OutputOptions& to = options.output;
	if (!(write(to.csv, connect::to_csv) && write(to.json, connect::to_json) && write(to.markdown, to_markdown)))
		return complain(error);
	for (const Cell& cell : cells)
		if (!cell.failure.empty())
			complain(fmt::format("{} clients over {}: {}", cell.experiment.swarm.clients,
				name_of(cell.experiment.swarm.transport), cell.failure));
	return impossible ? impossible_data : broken ? failed : good;
}

int measure(const Options& options) {
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) return complain(trust.error(), usage);
	auto client = channel::make_client_protection(*trust);
	auto server = channel::make_server_protection(*trust);
	if (!client) return complain(client.error());
	if (!server) return complain(server.error());
	if (options.with_redis)
		if (const auto found = find_redis(); !found) return complain(found.error());

	Results results{
		.cells = options.capacity ? capacity_cells(options, *client, *server) : cells_of(options, *client, *server),
		.redis = {},
		.trips_ns = {}};
	if (options.ablation) add_ablation(results.cells);
	if (options.with_redis)
		for (const std::uint64_t clients : options.clients)
			results.redis.push_back({.clients = static_cast<std::uint32_t>(clients)});
	if (const auto ran = run_all(options, results); !ran) return complain(ran.error());
	return write_results(options, results);
}

}  // namespace

void add_bench_scale(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub = bench.add_subcommand("scale", "Many clients of one server at once: connecting, echoes, memory");
	sub->footer(
		"Examples:\n"
		"  verbena bench scale                                the published numbers of clients, over RDMA and TCP\n"
		"  verbena bench scale --clients 10,1000 --reps 3 --json scale.json && verbena report scale.json -o "
		"scale.html\n"
		"  verbena bench scale --clients 100 --rate 1000      latency at a rate that leaves the server idle\n"
		"  verbena bench scale --clients 100000 --qps 64      logical clients that share 64 queue pairs\n"
		"  verbena bench scale --capacity --reps 3            the cost of a client, and the number that fits\n"
		"  verbena bench scale --connect tls-psn,rdmacm --transport rdma    set-up over TCP, and by rdma_cm\n"
		"  verbena bench scale --clients 100,10000 --engine epoll,uring     both interfaces of the kernel\n"
		"  verbena bench scale --clients 10 --stalled 0,100   the effect of stalled handshakes on other clients\n"
		"Exit codes: 0 success, 1 a client failed or something could not be measured, 2 wrong usage, 3 a row cannot be "
		"true.");
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
	const CLI::Option* count =
		sub->add_option("--clients", options->clients_text, "Clients at once: a list")->capture_default_str();
	sub->add_option("--transport", options->transports_text, "Transport of the messages: a list of rdma, tcp")
		->capture_default_str();
	sub->add_option("--engine", options->engines_text,
		   "Engine of the server: a list of epoll, uring (io_uring), threads (one for each client, at most 1000)")
		->capture_default_str();
	sub->add_option("--connect", options->connects_text,
		   "Way in which RDMA clients connect: a list of tls-psn (over TCP), rdmacm")
		->capture_default_str();
	sub->add_option("--stalled", options->stalled_text,
		   "Connections that begin a handshake before the first client and then stall: a list")
		->capture_default_str();
	sub->add_option("--rate", options->rates_text,
		   "Messages a second of all clients together: a list; 0: as fast as echoes come")
		->capture_default_str();
	sub->add_option("--size", options->size, "Bytes of a message")
		->capture_default_str()
		->check(CLI::Range(1u, 64u << 20));
	sub->add_option("--window", options->window, "Messages of a client under way at once")
		->capture_default_str()
		->check(CLI::Range(1u, 1024u));
	sub->add_option(
		   "--qps", options->qps_text, "Queue pairs that logical clients share: a list; 0: each client has its own")
		->capture_default_str();
	sub->add_flag("--ablation", options->ablation,
		"Run each cell also without coalescing, without pooled receive buffers and without batched polling");
	sub->add_flag("--capacity", options->capacity,
		"Compute the cost of a client of each kind from the fewest and the most of --clients (default: 200,1000), and "
		"the number of clients that fit on this machine");
	sub->add_option("--messages", options->messages, "Messages of each client at most; 0: as many as the time allows")
		->capture_default_str();
	sub->add_option("--seconds", options->seconds, "Measured time of each run")
		->capture_default_str()
		->check(CLI::Range(0.05, 3600.0));
	sub->add_option("--warmup", options->warmup_s, "Seconds before the measured time, not counted")
		->capture_default_str()
		->check(CLI::Range(0.0, 60.0));
	sub->add_option("--reps", options->reps, "Repetitions, interleaved")
		->capture_default_str()
		->check(CLI::Range(1u, 1000u));
	sub->add_option(
		   "--processes", options->processes, "Processes that the clients are spread over; 0: as many as needed")
		->capture_default_str();
	sub->add_option("--handshakes", options->handshakes,
		   "Clients of a process that connect at once, while the others wait; 0: all at once")
		->capture_default_str();
	sub->add_option("--poll-us", options->poll_us,
		   "Microseconds that a thread of the server polls after its last work, before it sleeps")
		->capture_default_str();
	sub->add_flag("--with-redis", options->with_redis,
		"Measure redis-benchmark too, with the same number of connections (redis must be installed)");
	add_output(*sub, options->output);
	add_trust(*sub, options->trust);

	sub->callback([options, &action, count] {
		if (options->capacity && count->count() == 0) options->clients_text = "200,1000";
		options->clients = sizes_of("--clients", options->clients_text, 100'000);
		if (const auto [least, most] = std::ranges::minmax(options->clients);
			options->capacity && (least < 10 || most < 2 * least))
			throw CLI::ValidationError(
				"--clients", "--capacity needs two numbers of 10 or more, the larger at least twice the smaller");
		options->transports = words_of<Transport>(
			"--transport", options->transports_text, {{"rdma", Transport::rdma}, {"tcp", Transport::tcp}});
		options->connects = words_of<ConnectBy>(
			"--connect", options->connects_text, {{"tls-psn", ConnectBy::tls_psn}, {"rdmacm", ConnectBy::rdmacm}});
		options->stalled = counts_of("--stalled", options->stalled_text, 10'000);
		options->rates = counts_of("--rate", options->rates_text, UINT64_MAX);
		options->engines = words_of<Engine>("--engine", options->engines_text,
			{{"epoll", Engine::epoll}, {"uring", Engine::uring}, {"threads", Engine::threads}});
		options->queue_pairs = counts_of("--qps", options->qps_text, 4096);
		options->output.settle();
		action = [options] { return measure(*options); };
	});
}

}  // namespace verbena::tools
