// SPDX-License-Identifier: Apache-2.0
// verbena bench kv: measures SET and GET of the key-value store between two processes, eager and by
// rendezvous; and, if asked, the same operations of redis and memcached.
#include <algorithm>

#include "bench/far_end/failure.h"
#include "bench/kv/environment.h"
#include "bench/kv/rows.h"
#include "bench/kv/texts.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/device_options.h"
#include "tools/option_values.h"
#include "tools/sweep_options.h"
#include "tools/trust_options.h"

namespace verbena::tools {
namespace {

using namespace kvbench;

struct Options {
	std::string sizes = "1:1M", ops = "set,get", protos = "eager,rndv,auto", forms = "read", windows = "1,16,64",
				sensitivity;
	std::string eager_max = "4096", memory = "1G", format = "markdown", transport = "rdma", device;
	std::uint32_t poll_us = 50;
	bool crossover = false, with_redis = false, with_memcached = false;
	Cells cells;
	SweepFlags sweep;
	channel::TrustOptions trust;
	std::string command_line;

	bool is_published() const { return format == "published"; }
	bool asks_for(Proto proto) const { return std::ranges::count(cells.protos, proto) > 0; }
};

// Refuses options that --format published cannot show: its lines have operation, protocol and size
// only, so no two cells may agree in all three.
void check_published(const Options& options) {
	const auto refuse = [](const char* option, const char* why) {
		throw CLI::ValidationError(option, std::string("--format published shows ") + why);
	};
	if (options.crossover) refuse("--crossover", "another table: leave out one of the two");
	if (!options.cells.sensitivity.empty()) refuse("--sensitivity", "no varied parameters: leave out one of the two");
	if (options.cells.windows.size() > 1) refuse("--window", "only one window");
	if (options.cells.forms.size() > 1) refuse("--rndv", "only one form of rendezvous");
	if (options.asks_for(Proto::one_sided)) refuse("--proto", "only eager, rndv and auto");
	if (options.asks_for(Proto::automatic) && options.cells.protos.size() > 1)
		refuse("--proto", "either auto, or eager and rndv");
}

void check_combinations(Options& options) {
	Cells& cells = options.cells;
	if (options.transport == "tcp" && (options.asks_for(Proto::rndv) || options.asks_for(Proto::one_sided)))
		throw CLI::ValidationError(
			"--proto", "rndv and onesided need RDMA: with --transport tcp use --proto eager,auto");
	if (options.crossover) {
		if (!options.asks_for(Proto::eager) || !options.asks_for(Proto::rndv))
			throw CLI::ValidationError("--crossover", "compares eager and rndv: --proto must name both");
		std::erase(cells.protos, Proto::automatic);
	}
	if (options.is_published()) check_published(options);
	const bool compares = !cells.sensitivity.empty() || !cells.rivals.empty();
	if (cells.stalled > 0 && (compares || options.crossover || options.is_published()))
		throw CLI::ValidationError("--stalled",
			"is measured alone: leave out --sensitivity, --with-redis, --with-memcached, --crossover and --format "
			"published");
	const auto all = cells_of(cells);
	if (std::ranges::count(all, System::verbena, &Cell::system) == 0)
		throw CLI::ValidationError("--proto", "onesided is for GETs: use --ops get");
}

// The list without repeated values, which would be the same cells twice.
template <class Value> std::vector<Value> once(const std::vector<Value>& values) {
	std::vector<Value> kept;
	for (const Value& value : values)
		if (std::ranges::find(kept, value) == kept.end()) kept.push_back(value);
	return kept;
}

void parse(Options& options) {
	Cells& cells = options.cells;
	cells.sizes = once(sizes_of("--sizes", options.sizes, kv::value_max));
	cells.windows = once(sizes_of("--window", options.windows, 4096));
	cells.ops = once(words_of<Op>("--ops", options.ops, {{"set", Op::set}, {"get", Op::get}}));
	cells.protos = once(words_of<Proto>("--proto", options.protos,
		{{"eager", Proto::eager}, {"rndv", Proto::rndv}, {"auto", Proto::automatic}, {"onesided", Proto::one_sided}}));
	cells.forms = once(words_of<Form>("--rndv", options.forms, {{"read", Form::read}, {"write", Form::write}}));
	if (!options.sensitivity.empty())
		cells.sensitivity = once(words_of<Varied>("--sensitivity", options.sensitivity,
			{{"depth", Varied::depth}, {"warmup", Varied::warmup}, {"iters", Varied::iters}}));
	if (options.with_redis) cells.rivals.push_back(System::redis);
	if (options.with_memcached) cells.rivals.push_back(System::memcached);
	cells.common.transport = options.transport == "tcp" ? Transport::tcp : Transport::rdma;
	cells.common.eager_max = static_cast<std::uint32_t>(*parse_size(options.eager_max));
	check_combinations(options);
	options.sweep.output.settle();
}

SessionOptions session_options(const Options& options, channel::Protection server, channel::Protection client) {
	return {.settings = {.eager_max = options.cells.common.eager_max,
				.memory = *parse_size(options.memory),
				.one_sided = one_sided_bytes(options.cells)},
		.server_protection = std::move(server),
		.client_protection = std::move(client),
		.device = options.device,
		.tcp = options.transport == "tcp",
		.spin = Nanoseconds{options.poll_us} * 1000};
}

int run(const Options& options) try {
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) return complain(trust.error(), usage);
	auto client = channel::make_client_protection(*trust);
	auto server = channel::make_server_protection(*trust);
	if (!client) return complain(client.error());
	if (!server) return complain(server.error());
	if (options.with_redis) bench::take(bench::find_redis());
	if (options.with_memcached) bench::take(bench::find_memcached());
	auto files = open_outputs(options.sweep, experiment(),
		options.crossover            ? to_crossover
			: options.is_published() ? to_published
									 : nullptr);
	if (!files) return complain(files.error());
	Sessions sessions(session_options(options, *server, *client));
	const auto trials = trials_of(options.cells, sessions);
	sessions.of(cells_of(options.cells).front());  // the environment needs the device
	return run_sweep(
		experiment(), trials,
		[&](std::span<const bench::Json> rows) {
			return environment_of(options.cells, sessions, rows, options.command_line);
		},
		options.sweep, *files);
} catch (const bench::Failure& failure) {
	return complain(failure.what());
}

}  // namespace

void add_bench_kv(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub = add_command(bench, "kv", "The key-value store: SET and GET, eager and by rendezvous");
	sub->footer(
		"Examples:\n"
		"  verbena bench kv --sizes 64,4K,64K,1M --window 1,64 --reps 3\n"
		"  verbena bench kv --crossover --window 16              the sizes at which each protocol is faster\n"
		"  verbena bench kv --ops get --proto auto,onesided --sizes 64,4K,64K\n"
		"  verbena bench kv --format published                   lines in the published format, at window 1\n"
		"  verbena bench kv --sizes 64 --with-redis --with-memcached    both too, over a unix socket and TCP\n"
		"  verbena bench kv --sizes 64,64K --window 1 --stalled 1      the effect of a stalled client on the others\n"
		"  verbena bench kv --sensitivity depth,warmup,iters --sizes 4K\n"
		"  verbena bench kv --json kv.json --resume kv.json      goes on after Ctrl-C\n" +
		std::string(sweep_exit_codes));
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
	Cell& cell = options->cells.common;
	sub->add_option("--sizes", options->sizes, "Bytes of a value: a list; a:b is from a to b by doubling")
		->capture_default_str();
	sub->add_option("--ops", options->ops, "Operations: a list of set, get")->capture_default_str();
	sub->add_option("--proto", options->protos,
		   "Way in which values travel: a list of eager, rndv, auto, onesided (GET by RDMA READ alone)")
		->capture_default_str();
	sub->add_option("--rndv", options->forms, "Form of a SET by rendezvous: a list of read, write")
		->capture_default_str();
	sub->add_option("--window", options->windows, "Operations of a client under way at once: a list")
		->capture_default_str();
	sub->add_option("--clients", cell.clients, "Clients, all in one process")
		->capture_default_str()
		->check(CLI::Range(1u, measured_clients_max));
	sub->add_option("--stalled", options->cells.stalled,
		   "Run each cell with and without this number of stalled client processes (SIGSTOP in the middle of a "
		   "rendezvous)")
		->check(CLI::Range(0u, 1000u));
	sub->add_option("--rx-depth", cell.rx_depth, "Receive buffers of each side")
		->capture_default_str()
		->check(CLI::Range(8u, 65'536u));
	sub->add_option("--tx-depth", cell.tx_depth, "Send work requests of a connection, on each side")
		->capture_default_str()
		->check(CLI::Range(8u, 16'384u));
	sub->add_option("--eager-max", options->eager_max,
		   "With --proto auto: bytes of key and value together below which a value travels eagerly")
		->capture_default_str()
		->check(size_between(0, UINT64_MAX));
	sub->add_option("--memory", options->memory, "Memory of the store")
		->capture_default_str()
		->check(size_between(0, UINT64_MAX));
	sub->add_option("--warmup", cell.warmup, "Operations of a run before the timed ones")->capture_default_str();
	sub->add_option("--iters", cell.iters, "Timed operations of a run")
		->capture_default_str()
		->check(CLI::Range(1u, 1'000'000'000u));
	sub->add_option("--seconds-max", cell.seconds_max,
		   "Seconds after which a run ends; `operations` of its row is the number of operations timed")
		->capture_default_str()
		->check(CLI::Range(0.01, 3600.0));
	sub->add_option("--transport", options->transport, "Transport of the messages")
		->capture_default_str()
		->check(CLI::IsMember({"rdma", "tcp"}));
	add_device_option(*sub, options->device);
	sub->add_option(
		   "--poll-us", options->poll_us, "Microseconds that a thread polls after its last work, before it sleeps")
		->capture_default_str();
	sub->add_flag("--crossover", options->crossover, "Print the sizes at which each protocol is faster, not the table");
	sub->add_option(
		"--sensitivity", options->sensitivity, "Parameters to vary, one at a time: a list of depth, warmup, iters");
	sub->add_option("--format", options->format,
		   "Format of the output; published: the published lines, by default with --window 1 and --proto eager,rndv")
		->capture_default_str()
		->check(CLI::IsMember({"markdown", "published"}));
	sub->add_flag("--with-redis", options->with_redis, "Measure redis too (it must be installed)");
	sub->add_flag("--with-memcached", options->with_memcached, "Measure memcached too (it must be installed)");
	add_sweep(*sub, options->sweep);
	add_trust(*sub, options->trust);

	sub->callback([options, sub, &action] {
		if (options->is_published() && sub->count("--window") == 0) options->windows = "1";
		if (options->is_published() && sub->count("--proto") == 0) options->protos = "eager,rndv";
		parse(*options);
		action = [options] { return run(*options); };
	});
}

}  // namespace verbena::tools
