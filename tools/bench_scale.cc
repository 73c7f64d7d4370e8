// SPDX-License-Identifier: Apache-2.0
// verbena bench scale: its command line, and its sweep.
#include <fmt/format.h>

#include <algorithm>

#include "bench/scale/capacity.h"
#include "bench/scale/environment.h"
#include "bench/scale/redis.h"
#include "bench/scale/rows.h"
#include "bench/scale/trials.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/option_values.h"
#include "tools/sweep_options.h"
#include "tools/trust_options.h"

namespace verbena::tools {
namespace {

using namespace scale;

struct Options {
	std::string clients = "10,100,1000,5000,10000,20000", transports = "rdma,tcp", rates = "0", queue_pairs = "0",
				engines = "epoll", connects = "tls-psn", stalled = "0";
	Cells cells;
	SweepFlags sweep;
	channel::TrustOptions trust;
	std::string command_line;
};

void parse_lists(Options& options, bool clients_given) {
	Cells& cells = options.cells;
	if (cells.capacity && !clients_given) options.clients = "200,1000";
	cells.clients = sizes_of("--clients", options.clients, 100'000);
	if (const auto [least, most] = std::ranges::minmax(cells.clients);
		cells.capacity && (least < 10 || most < 2 * least))
		throw CLI::ValidationError(
			"--clients", "--capacity needs two numbers of 10 or more, the larger at least twice the smaller");
	cells.transports =
		words_of<Transport>("--transport", options.transports, {{"rdma", Transport::rdma}, {"tcp", Transport::tcp}});
	cells.connects = words_of<ConnectBy>(
		"--connect", options.connects, {{"tls-psn", ConnectBy::tls_psn}, {"rdmacm", ConnectBy::rdmacm}});
	cells.stalled = counts_of("--stalled", options.stalled, 10'000);
	cells.rates = counts_of("--rate", options.rates, UINT64_MAX);
	cells.engines = words_of<Engine>("--engine", options.engines,
		{{"epoll", Engine::epoll}, {"uring", Engine::uring}, {"threads", Engine::threads}});
	cells.queue_pairs = counts_of("--qps", options.queue_pairs, 4096);
	options.sweep.output.settle();
}

int measure(const Options& options) {
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) return complain(trust.error(), usage);
	auto client = channel::make_client_protection(*trust);
	auto server = channel::make_server_protection(*trust);
	if (!client) return complain(client.error());
	if (!server) return complain(server.error());
	if (options.cells.with_redis)
		if (const auto found = find_redis(); !found) return complain(found.error());
	auto files = open_outputs(options.sweep, experiment());
	if (!files) return complain(files.error());

	bool clients_failed = false;
	const auto trials = trials_of(options.cells, {*client, *server}, [&](const std::string& sentence) {
		clients_failed = true;
		complain(sentence);
	});
	const Surroundings surroundings{
		.device = device_here(true), .settings = settings_of(options.cells), .command_line = options.command_line};
	const Resources resources = resources_here();
	const int code = run_sweep(
		experiment(), trials,
		[&](std::span<const bench::Json> rows) {
			auto environment = environment_of(surroundings, rows);
			if (!options.cells.capacity) return environment;
			environment.emplace_back(capacity_resources, describe(resources));
			for (auto& line : capacity_of(rows, resources)) environment.push_back(std::move(line));
			return environment;
		},
		options.sweep, *files);
	return code == good && clients_failed ? failed : code;
}

}  // namespace

void add_bench_scale(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub = add_command(bench, "scale", "Many clients of one server at once: connecting, echoes, memory");
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
		"  verbena bench scale --json rows.json --resume rows.json          goes on after Ctrl-C\n" +
		std::string(sweep_exit_codes) + "\nExit code 1 also says that a client failed.");
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
	Cells& cells = options->cells;
	const CLI::Option* count =
		sub->add_option("--clients", options->clients, "Clients at once: a list")->capture_default_str();
	sub->add_option("--transport", options->transports, "Transport of the messages: a list of rdma, tcp")
		->capture_default_str();
	sub->add_option("--engine", options->engines,
		   "Engine of the server: a list of epoll, uring (io_uring), threads (one for each client, at most 2000)")
		->capture_default_str();
	sub->add_option(
		   "--connect", options->connects, "Way in which RDMA clients connect: a list of tls-psn (over TCP), rdmacm")
		->capture_default_str();
	sub->add_option("--stalled", options->stalled,
		   "Connections that begin a handshake before the first client and then stall: a list")
		->capture_default_str();
	sub->add_option(
		   "--rate", options->rates, "Messages a second of all clients together: a list; 0: as fast as echoes come")
		->capture_default_str();
	sub->add_option("--size", cells.size, "Bytes of a message")
		->capture_default_str()
		->transform(as_size(1, 64u << 20));
	sub->add_option("--window", cells.window, "Messages of a client under way at once")
		->capture_default_str()
		->check(CLI::Range(1u, 1024u));
	sub->add_option(
		   "--qps", options->queue_pairs, "Queue pairs that logical clients share: a list; 0: each client has its own")
		->capture_default_str();
	sub->add_flag("--ablation", cells.ablation,
		"Run each cell also without coalescing, without pooled receive buffers and without batched polling");
	sub->add_flag("--capacity", cells.capacity,
		"Compute the cost of a client of each kind from the fewest and the most of --clients (default: 200,1000), and "
		"the number of clients that fit on this machine");
	sub->add_option("--messages", cells.messages, "Messages of each client at most; 0: as many as the time allows")
		->capture_default_str();
	sub->add_option("--seconds", cells.seconds, "Measured time of each run")
		->capture_default_str()
		->check(CLI::Range(0.05, 3600.0));
	sub->add_option("--warmup", cells.warmup_s, "Seconds before the measured time, not counted")
		->capture_default_str()
		->check(CLI::Range(0.0, 60.0));
	sub->add_option("--processes", cells.processes, "Processes that the clients are spread over; 0: as many as needed")
		->capture_default_str();
	sub->add_option("--handshakes", cells.handshakes,
		   "Clients of a process that connect at once, while the others wait; 0: all at once")
		->capture_default_str();
	sub->add_option("--poll-us", cells.poll_us,
		   "Microseconds that a thread of the server polls after its last work, before it sleeps")
		->capture_default_str();
	sub->add_flag("--with-redis", cells.with_redis,
		"Measure redis-benchmark too, with the same number of connections (redis must be installed)");
	add_sweep(*sub, options->sweep);
	add_trust(*sub, options->trust);

	sub->callback([options, &action, count] {
		parse_lists(*options, count->count() > 0);
		action = [options] { return measure(*options); };
	});
}

}  // namespace verbena::tools
