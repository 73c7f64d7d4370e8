// SPDX-License-Identifier: Apache-2.0
// verbena bench rpc: its command line and its environment.
#include <fmt/format.h>

#include <algorithm>

#include "bench/environment.h"
#include "bench/rpc/device.h"
#include "bench/rpc/labels.h"
#include "bench/rpc/peer.h"
#include "bench/rpc/rows.h"
#include "bench/rpc/trials.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/option_values.h"
#include "tools/sweep_options.h"

namespace verbena::tools {
namespace {

using namespace rpcbench;

struct Options {
	std::string sizes = "128,4K,32K,256K,1M,8M", concurrency = "1,4,16,64,256", transports = "tcp,rdma", mode = "sink";
	std::string ablate, recv_mode = "srq", memory = "user";
	bool with_grpc = false, with_capnp = false;
	double duration = 5, warmup = 0.5;
	std::uint32_t poll_us = 50;
	Matrix matrix;
	SweepFlags sweep;
	std::string command_line;
};

// An ablation has lists of its own, unless the user gives others.
void parse(Options& options, bool has_sizes, bool has_concurrency) {
	Matrix& matrix = options.matrix;
	if (has_sizes || options.ablate.empty()) matrix.sizes = sizes_of("--sizes", options.sizes, 63u << 20);
	if (has_concurrency || options.ablate.empty())
		matrix.concurrency = sizes_of("--concurrency", options.concurrency, 65'536);
	matrix.over_rdma = words_of<bool>("--transport", options.transports, {{"tcp", false}, {"rdma", true}});
	for (const auto& [system, wanted] :
		{std::pair(System::grpc, options.with_grpc), std::pair(System::capnp, options.with_capnp)})
		if (wanted) matrix.others.push_back(system);
	std::vector<std::pair<std::string, Behaviour>> known;
	for (const Behaviour each : all_behaviours()) known.emplace_back(name_of(each), each);
	if (!options.ablate.empty()) matrix.ablations = words_of("--ablate", options.ablate, known);
	CellOptions& cell = matrix.options;
	cell.mode = options.mode == "sink" ? Mode::sink : Mode::echo;
	cell.per_connection = options.recv_mode == "per_connection";
	cell.registered = options.memory == "registered";
	cell.warmup = static_cast<Nanoseconds>(options.warmup * 1e9);
	cell.duration = static_cast<Nanoseconds>(options.duration * 1e9);
	cell.spin = Nanoseconds{options.poll_us} * 1000;
	if (std::ranges::find(matrix.ablations, Behaviour::connection_pool) != matrix.ablations.end() &&
		(cell.mode != Mode::sink || cell.registered))
		throw CLI::ValidationError(
			"--ablate", "connection-pool can be measured only with --mode sink and --memory user");
	if (cells_of(matrix).empty())
		throw CLI::ValidationError(
			"--ablate", fmt::format("{} exists only over RDMA: add rdma to --transport", options.ablate));
	options.sweep.output.settle();
}

std::string settings_of(const Options& options) {
	const CellOptions& cell = options.matrix.options;
	return fmt::format("duration {} s, warmup {} s, threads {}, poll {} us, send-buffers {}", options.duration,
		options.warmup, cell.server_threads, options.poll_us,
		cell.send_buffers == 0 ? "default" : std::to_string(cell.send_buffers));
}

int measure(const Options& options) {
	for (const System other : options.matrix.others)
		if (const auto found = find_peer(other); !found) return complain(found.error());
	auto files = open_outputs(options.sweep, experiment());
	if (!files) return complain(files.error());
	const std::vector<Behaviour>& ablations = options.matrix.ablations;
	const auto device = describe_device(std::ranges::find(ablations, Behaviour::pool) != ablations.end());
	const auto describe = [&](std::span<const bench::Json> rows) {
		bench::Environment environment = device;
		environment.emplace_back("settings", settings_of(options));
		environment.emplace_back("core_to_core_ns", bench::core_to_core_ns(rows, {"core_to_core_ns"}));
		const auto machine = bench::machine(options.command_line);
		environment.insert(environment.end(), machine.begin(), machine.end());
		return environment;
	};
	return run_sweep(experiment(), trials_of(cells_of(options.matrix)), describe, options.sweep, *files);
}

}  // namespace

void add_bench_rpc(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub =
		add_command(bench, "rpc", "Calls over TCP and RDMA: rates and latencies by size and requests in flight");
	sub->footer(
		"Examples:\n"
		"  verbena bench rpc --json rpc.json      the published matrix, over both transports: 300 runs, half an hour\n"
		"  verbena bench rpc --sizes 128 --concurrency 1,256 --transport rdma --duration 1 --reps 3\n"
		"  verbena bench rpc --mode echo --csv rpc.csv && verbena check rpc.csv\n"
		"  verbena bench rpc --transport tcp --sizes 128,256K --concurrency 1,64 --with-grpc --with-capnp\n"
		"  verbena bench rpc --ablate inline,coalescing,send-queue,pool,connection-pool --json ablation.json\n"
		"  verbena bench rpc --transport rdma --recv-mode per_connection --sizes 128 --concurrency 1\n"
		"  verbena bench rpc --json rpc.json --resume rpc.json   (goes on after Ctrl-C)\n"
		"  verbena report rpc.json -o rpc.html\n" +
		std::string(sweep_exit_codes));
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
	CellOptions& cell = options->matrix.options;
	sub->add_option("--sizes", options->sizes, "Bytes of a request: a list")->capture_default_str();
	sub->add_option("--concurrency", options->concurrency, "Requests in flight: a list")->capture_default_str();
	sub->add_option("--ablate", options->ablate,
		"A list of inline, coalescing, send-queue, pool, connection-pool: run cells with and without each of them, at "
		"sizes and concurrencies where it matters, or at those of --sizes and --concurrency");
	sub->add_option("--recv-mode", options->recv_mode,
		   "srq: one shared receive queue; per_connection: each connection has receive blocks of its own")
		->capture_default_str()
		->check(CLI::IsMember({"srq", "per_connection"}));
	sub->add_option(
		   "--memory", options->memory, "Memory of requests over RDMA; registered memory is fetched without a copy")
		->capture_default_str()
		->check(CLI::IsMember({"user", "registered"}));
	sub->add_option("--send-buffers", cell.send_buffers,
		   "Blocks of a connection under way at once (default: that of the library)")
		->check(CLI::Range(1u, 64u));
	sub->add_flag("--with-grpc", options->with_grpc, "Measure gRPC too, in the cells over TCP");
	sub->add_flag("--with-capnp", options->with_capnp, "Measure Cap'n Proto too, in the cells over TCP");
	sub->add_option("--transport", options->transports, "Transports of the requests: a list of tcp, rdma")
		->capture_default_str();
	sub->add_option("--mode", options->mode, "sink: the answer is short, as published; echo: it is the whole request")
		->capture_default_str()
		->check(CLI::IsMember({"sink", "echo"}));
	sub->add_option("--connections", cell.connections, "Connections that the requests share")
		->capture_default_str()
		->check(CLI::Range(1u, 20'000u));
	sub->add_option("--threads", cell.server_threads, "I/O threads of the server")
		->capture_default_str()
		->check(CLI::Range(1u, 256u));
	sub->add_option("--duration", options->duration, "Measured seconds of each run")
		->capture_default_str()
		->check(CLI::Range(0.05, 3600.0));
	sub->add_option("--warmup", options->warmup, "Seconds before the measured time, not counted")
		->capture_default_str()
		->check(CLI::Range(0.0, 60.0));
	sub->add_option(
		   "--poll-us", options->poll_us, "Microseconds that a thread polls after its last work, before it sleeps")
		->capture_default_str();
	add_sweep(*sub, options->sweep);
	sub->callback([options, &action, sub] {
		parse(*options, sub->count("--sizes") > 0, sub->count("--concurrency") > 0);
		action = [options] { return measure(*options); };
	});
}

}  // namespace verbena::tools
