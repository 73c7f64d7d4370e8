// verbena bench rpc: its command line, its interleaved runs, and its table.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/sizes.h"
#include "bench/connect/rows.h"
#include "bench/environment.h"
#include "bench/rpc/peer.h"
#include "bench/rpc/registration.h"
#include "bench/rpc/rows.h"
#include "bench/sweep/interruption.h"
#include "bench/sweep/progress_line.h"
#include "tools/commands.h"
#include "tools/option_values.h"
#include "tools/output_options.h"

namespace verbena::tools {
namespace {

using namespace rpcbench;

struct Options {
	std::string sizes = "128,4K,32K,256K,1M,8M", concurrency = "1,4,16,64,256", transports = "tcp,rdma", mode = "sink";
	std::string ablate, recv_mode = "srq", memory = "user";
	bool with_grpc = false, with_capnp = false;
	double duration = 5, warmup = 0.5;
	std::uint32_t reps = 5, connections = 1, threads = 1, poll_us = 50, send_buffers = 0;
	OutputOptions output;
	std::string command_line;
	std::vector<CellOptions> cells;
};

// A behaviour of the library that --ablate switches off, with the sizes and concurrencies at which
// it matters. Those are used unless the user gives others.
struct Ablation {
	Behaviour behaviour;
	std::vector<std::uint64_t> sizes, concurrency;
	bool rdma_only;
};
const std::vector<Ablation> ablations{
	{Behaviour::inline_data, {16, 64, 128, 192}, {1, 64}, true},
	{Behaviour::coalescing, {128}, {1, 16, 256}, false},
	{Behaviour::send_queue, {256 << 10, 1 << 20, 8 << 20}, {1, 4, 16}, true},
	{Behaviour::pool, {32 << 10, 256 << 10, 1 << 20}, {1, 16}, true},
	{Behaviour::connection_pool, {128}, {1, 16}, false},
};

using Numbers = std::vector<std::uint64_t>;

CellOptions cell_of(const Options& options, std::string_view transport, std::uint64_t size, std::uint64_t in_flight) {
	return {.rdma = transport == "rdma",
		.mode = options.mode == "sink" ? Mode::sink : Mode::echo,
		.size = size,
		.concurrency = static_cast<std::uint32_t>(in_flight),
		.connections = std::min(options.connections, static_cast<std::uint32_t>(in_flight)),
		.server_threads = options.threads,
		.per_connection = transport == "rdma" && options.recv_mode == "per_connection",
		.registered = transport == "rdma" && options.memory == "registered",
		.send_buffers = options.send_buffers,
		.warmup = static_cast<Nanoseconds>(options.warmup * 1e9),
		.duration = static_cast<Nanoseconds>(options.duration * 1e9),
		.spin = Nanoseconds{options.poll_us} * 1000};
}

// All cells of the matrix; over TCP each is followed by those of the other systems asked for.
std::vector<CellOptions> matrix_of(const Options& options, const Numbers& sizes, const Numbers& concurrency) {
	std::vector<CellOptions> cells;
	for (const std::string_view transport : split(options.transports))
		for (const std::uint64_t size : sizes)
			for (const std::uint64_t in_flight : concurrency) {
				cells.push_back(cell_of(options, transport, size, in_flight));
				for (const auto& [peer, wanted] :
					{std::pair(Peer::grpc, options.with_grpc), std::pair(Peer::capnp, options.with_capnp)}) {
					if (!wanted || transport != "tcp") continue;
					cells.push_back(cells.back());
					cells.back().peer = peer;
				}
			}
	return cells;
}

// Each cell with and without a behaviour. An empty list stands for the ablation's own values.
std::vector<CellOptions> ablation_cells(
	const Options& options, const Ablation& ablation, const Numbers& sizes, const Numbers& concurrency) {
	std::vector<CellOptions> cells;
	for (const std::string_view transport : split(options.transports)) {
		if (ablation.rdma_only && transport != "rdma") continue;
		for (const std::uint64_t size : sizes.empty() ? ablation.sizes : sizes)
			for (const std::uint64_t in_flight : concurrency.empty() ? ablation.concurrency : concurrency)
				for (const bool without : {false, true}) {
					CellOptions& cell = cells.emplace_back(cell_of(options, transport, size, in_flight));
					cell.ablation = ablation.behaviour;
					cell.without = without;
				}
	}
	return cells;
}

bool has_ablation(const Options& options, Behaviour behaviour) {
	return std::ranges::any_of(options.cells, [&](const CellOptions& cell) { return cell.ablation == behaviour; });
}

// Adds the device to the environment. Call after all cells have run: they fork, and opening a
// device starts threads.
void add_device(const Options& options, connect::Table& table) {
	const auto device = lib::open_best({.both_ends_on_this_host = true});
	if (!device) return;
	table.environment.emplace_back("device", device->choice.device);
	table.environment.emplace_back("kind", device->choice.software ? "software" : "hardware");
	if (!has_ablation(options, Behaviour::pool)) return;
	const std::vector<std::size_t> sizes{4 << 10, 32 << 10, 256 << 10, 1 << 20};
	const auto costs = measure_registration(*device, sizes);
	if (!costs) return;
	for (const RegistrationCost& cost : *costs)
		table.environment.emplace_back("registration " + size_text(cost.bytes),
			fmt::format("{:.2f} us to register and deregister, {:.2f} us to copy", cost.register_us, cost.copy_us));
}

// The CSV begins with the published columns, not with `experiment`. connect::to_csv() puts a comma
// in front of every column except `experiment`, so the leading comma of each line is removed.
std::string to_csv(const connect::Table& table) {
	const std::string all = connect::to_csv(table);
	std::string text;
	for (const std::string_view line : split(all, '\n')) {
		if (line.empty()) continue;
		text += line.starts_with(',') ? line.substr(1) : line;
		text += '\n';
	}
	return text;
}

std::string words_of(const CellOptions& cell) {
	const std::string_view way = cell.peer != Peer::ours ? name_of(cell.peer) : cell.rdma ? "rdma" : "tcp";
	const std::string_view behaviour = name_of(cell.ablation);
	return fmt::format("{} x {} over {}{}{}", size_text(cell.size), cell.concurrency, way,
		behaviour.empty()  ? ""
			: cell.without ? ", without "
						   : ", with ",
		behaviour);
}

int measure(const Options& options) {
	for (const auto& [peer, wanted] :
		{std::pair(Peer::grpc, options.with_grpc), std::pair(Peer::capnp, options.with_capnp)})
		if (wanted)
			if (const auto found = find_peer(peer); !found) return complain(found.error());
	std::vector<std::vector<Outcome>> runs(options.cells.size());
	std::vector<std::string> failures(options.cells.size());
	const bench::Interruption interruption;
	{
		bench::ProgressLine progress(!options.output.quiet, options.reps * options.cells.size());
		// Cells are interleaved, so that a disturbance of the machine affects all of them.
		for (std::uint32_t repetition = 0; repetition < options.reps; ++repetition)
			for (std::size_t i = 0; i < options.cells.size(); ++i) {
				if (interruption.asked()) break;
				progress.next(words_of(options.cells[i]));
				if (!failures[i].empty()) continue;
				auto run = run_cell(options.cells[i]);
				if (run) runs[i].push_back(*run);
				else if (!interruption.asked()) failures[i] = run.error();
			}
	}

	connect::Table table;
	bool broken = false, impossible = false;
	for (std::size_t i = 0; i < options.cells.size(); ++i) {
		const CellOptions& cell = options.cells[i];
		// Interrupted before the cell's first repetition.
		if (failures[i].empty() && runs[i].empty()) continue;
		const Json& row =
			table.rows.emplace_back(failures[i].empty() ? row_of(cell, runs[i]) : row_not_run(cell, failures[i]));
		if (!failures[i].empty()) complain(words_of(cell) + ": " + failures[i]);
		broken |= !failures[i].empty();
		impossible |= failures[i].empty() && row["validity"] == "invalid";
	}
	if (table.rows.empty()) return complain("interrupted before anything was measured", bench::interrupted);
	table.environment = {{"experiment", "rpc"}, {"server", "a process of its own on this host"},
		{"cpu", bench::cpu_name()}, {"cores", fmt::format("{}, not pinned", sysconf(_SC_NPROCESSORS_ONLN))},
		{"kernel", bench::kernel_name()}, {"commit", bench::commit()}, {"date", bench::utc_now()},
		{"command", options.command_line}};
	if (interruption.asked())
		table.environment.emplace_back("interrupted", "yes; the column `repetitions` has the number that each row had");
	add_device(options, table);
	const OutputOptions& to = options.output;
	std::string error;
	const auto write = [&](const std::string& path, auto render) {
		return path.empty() || write_out(path, render(table), error);
	};
	const auto markdown = [](const connect::Table& of) { return rpcbench::to_markdown(of.rows); };
	if (!(write(to.csv, to_csv) && write(to.json, connect::to_json) && write(to.markdown, markdown)))
		return complain(error);
	return interruption.asked() ? bench::interrupted : impossible ? impossible_data : broken ? failed : good;
}

}  // namespace

void add_bench_rpc(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub =
		bench.add_subcommand("rpc", "Calls over TCP and RDMA: rates and latencies by size and requests in flight");
	sub->footer(
		"Examples:\n"
		"  verbena bench rpc --json rpc.json      the published matrix, over both transports: 300 runs, half an hour\n"
		"  verbena bench rpc --sizes 128 --concurrency 1,256 --transport rdma --duration 1 --reps 3\n"
		"  verbena bench rpc --mode echo --csv rpc.csv && verbena check rpc.csv\n"
		"  verbena bench rpc --transport tcp --sizes 128,256K --concurrency 1,64 --with-grpc --with-capnp\n"
		"  verbena bench rpc --ablate inline,coalescing,send-queue,pool,connection-pool --json ablation.json\n"
		"  verbena bench rpc --transport rdma --recv-mode per_connection --sizes 128 --concurrency 1\n"
		"  verbena report rpc.json -o rpc.html\n"
		"Ctrl-C ends it after the current run and keeps the rows that have a repetition; a second Ctrl-C ends it at "
		"once.\n"
		"Exit codes: 0 success, 1 something could not be measured, 2 wrong usage, 3 a row cannot be true, 130 "
		"interrupted.");
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
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
	sub->add_option("--send-buffers", options->send_buffers,
		   "Blocks of a connection under way at once (default: that of the library)")
		->check(CLI::Range(1u, 64u));
	sub->add_flag("--with-grpc", options->with_grpc, "Measure gRPC too, in the cells over TCP");
	sub->add_flag("--with-capnp", options->with_capnp, "Measure Cap'n Proto too, in the cells over TCP");
	sub->add_option("--transport", options->transports, "Transports of the requests: a list of tcp, rdma")
		->capture_default_str();
	sub->add_option("--mode", options->mode, "sink: the answer is short, as published; echo: it is the whole request")
		->capture_default_str()
		->check(CLI::IsMember({"sink", "echo"}));
	sub->add_option("--connections", options->connections, "Connections that the requests share")
		->capture_default_str()
		->check(CLI::Range(1u, 20'000u));
	sub->add_option("--threads", options->threads, "I/O threads of the server")
		->capture_default_str()
		->check(CLI::Range(1u, 256u));
	sub->add_option("--duration", options->duration, "Measured seconds of each run")
		->capture_default_str()
		->check(CLI::Range(0.05, 3600.0));
	sub->add_option("--warmup", options->warmup, "Seconds before the measured time, not counted")
		->capture_default_str()
		->check(CLI::Range(0.0, 60.0));
	sub->add_option("--reps", options->reps, "Repetitions, interleaved")
		->capture_default_str()
		->check(CLI::Range(1u, 1000u));
	sub->add_option(
		   "--poll-us", options->poll_us, "Microseconds that a thread polls after its last work, before it sleeps")
		->capture_default_str();
	add_output(*sub, options->output);
	sub->callback([options, &action, sub] {
		const Numbers sizes = sizes_of("--sizes", options->sizes, 63u << 20);
		const Numbers concurrency = sizes_of("--concurrency", options->concurrency, 65'536);
		words_of<bool>("--transport", options->transports, {{"tcp", false}, {"rdma", true}});
		const auto asked = [&](const char* name, const Numbers& numbers) {
			return sub->count(name) > 0 ? numbers : Numbers();
		};
		std::vector<std::pair<std::string, const Ablation*>> known;
		for (const Ablation& each : ablations) known.emplace_back(name_of(each.behaviour), &each);
		if (options->ablate.empty()) options->cells = matrix_of(*options, sizes, concurrency);
		else
			for (const Ablation* each : words_of("--ablate", options->ablate, known)) {
				if (each->behaviour == Behaviour::connection_pool &&
					(options->mode != "sink" || options->memory != "user"))
					throw CLI::ValidationError(
						"--ablate", "connection-pool can be measured only with --mode sink and --memory user");
				const auto cells =
					ablation_cells(*options, *each, asked("--sizes", sizes), asked("--concurrency", concurrency));
				options->cells.insert(options->cells.end(), cells.begin(), cells.end());
			}
		if (options->cells.empty())
			throw CLI::ValidationError(
				"--ablate", fmt::format("{} exists only over RDMA: add rdma to --transport", options->ablate));
		options->output.settle();
		action = [options] { return measure(*options); };
	});
}

}  // namespace verbena::tools
