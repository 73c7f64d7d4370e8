// SPDX-License-Identifier: Apache-2.0
// verbena bench rcud: its command line, its two processes (or one, with a peer), and its tables.
#include <fmt/format.h>

#include <chrono>

#include "bench/far_end/server.h"
#include "bench/rcud/environment.h"
#include "bench/rcud/rows.h"
#include "bench/rcud/server.h"
#include "bench/rcud/trials.h"
#include "bench/rcud/verification.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/device_options.h"
#include "tools/option_values.h"
#include "tools/program.h"
#include "tools/sweep_options.h"

namespace verbena::tools {
namespace {

using namespace rcud;
using bench::connect_to;
using bench::Control;
using bench::pin_to;
using bench::RoundTrip;
using bench::two_cores;

struct Options {
	std::string modes = "rc,ud", ops = "send", sizes = "32:8192", windows = "4,64", window_mode = "local,credit",
				oversize = "na", connect = "exchange", queue_pairs, senders = "1";
	std::string device, peer;
	std::optional<int> gid_index;
	SweepFlags sweep;
	bool is_server = false, once = false;
	std::uint16_t port = 18515;
	int child_core = -1;
	bool is_child = false;
	Cells cells;
	Settings settings;
	std::string command_line;
};

// The values of a list of words; a repeated word counts once.
template <class Value>
std::vector<Value> parse_names(
	const std::string& text, const std::vector<std::pair<std::string, Value>>& known, const char* option) {
	std::vector<Value> values;
	for (const Value value : words_of(option, text, known))
		if (std::ranges::find(values, value) == values.end()) values.push_back(value);
	return values;
}

// `given`: the options that were given, whose defaults are others with --qps.
void parse_lists(Options& options, const CLI::App& given) {
	Cells& cells = options.cells;
	if (!options.queue_pairs.empty()) {
		if (given.count("--sizes") == 0) options.sizes = "64";
		if (given.count("--windows") == 0) options.windows = "64";
		cells.queue_pairs = sizes_of("--qps", options.queue_pairs, 65'536);
		cells.senders = sizes_of("--senders", options.senders, 64);
		if (options.connect == "rdmacm")
			throw CLI::ValidationError("--connect", "--qps connects its queue pairs by exchange alone");
		if (options.settings.verify)
			throw CLI::ValidationError("--verify", "--qps checks the stamps of its messages alone");
	}
	cells.modes = parse_names<Mode>(options.modes, {{"rc", Mode::rc}, {"ud", Mode::ud}}, "--modes");
	cells.ops = parse_names<Op>(options.ops, {{"send", Op::send}, {"write", Op::write}, {"read", Op::read}}, "--ops");
	cells.window_modes = parse_names<WindowMode>(
		options.window_mode, {{"local", WindowMode::local}, {"credit", WindowMode::credit}}, "--window-mode");
	cells.oversize = parse_names<Oversize>(options.oversize,
		{{"na", Oversize::not_applicable}, {"segment", Oversize::segment}, {"raw", Oversize::raw}}, "--ud-oversize")
						 .front();
	cells.sizes = sizes_of("--sizes", options.sizes, 64u << 20);
	cells.windows = sizes_of("--windows", options.windows, 4096);
	options.settings.connect = options.connect == "rdmacm" ? Connect::rdmacm : Connect::exchange;
	options.sweep.output.settle();
}

std::string describe(const lib::OpenDevice& device) {
	return fmt::format("{} ({}), GID {} {}, MTU {}", device.choice.device, device.choice.why, device.choice.gid_index,
		lib::format_gid(device.choice.gid), device.mtu_bytes());
}

// A UD message above the MTU was asked for, to see that it is lost.
bool is_raw_oversize(const bench::Json& row) { return row["mode"] == "UD" && row["msg"] > row["mtu"]; }

int measure(const Options& options, Control& control, RoundTrip* page, bench::OutputFiles& files) {
	const bool local = page != nullptr;
	auto device = take(
		lib::open_best({.device = options.device, .gid_index = options.gid_index, .both_ends_on_this_host = local}));
	const auto cores = local ? two_cores() : std::nullopt;  // pinning leaves only one allowed core
	if (cores) pin_to(cores->first);
	if (!options.sweep.output.quiet) print_error("device: {}\n", describe(device));

	Client client(device, control, page);
	const auto trials = trials_of(client, options.cells, options.settings, device.choice.device);
	std::string verification;
	const int code = run_sweep(
		experiment(), trials,
		[&](std::span<const bench::Json> rows) {
			verification = verification_cost(rows);
			return environment_of(device, client.peer(), options.settings,
				{.peer_host = options.peer, .cores = cores, .command_line = options.command_line}, rows);
		},
		options.sweep, files, options.cells.oversize == Oversize::raw ? is_raw_oversize : nullptr);
	if (!options.sweep.output.quiet && !verification.empty()) print_error("verification: {}\n", verification);
	return code;
}

int measure_with_own_server(const Options& options, bench::OutputFiles& files) {
	std::vector<std::string> arguments{"bench", "rcud", "--serve-inherited"};
	if (const auto cores = two_cores()) arguments.insert(arguments.end(), {"--core", std::to_string(cores->second)});
	if (!options.device.empty()) arguments.insert(arguments.end(), {"--device", options.device});
	if (options.gid_index) arguments.insert(arguments.end(), {"--gid-index", std::to_string(*options.gid_index)});
	bench::OwnServer server(arguments);
	return measure(options, server.control(), &server.page(), files);
}

// The process that measure_with_own_server() starts. It reports no error about devices, because the
// client reports the same one.
int serve_inherited(const Options& options) {
	bench::InheritedEnds ends;
	auto device =
		lib::open_best({.device = options.device, .gid_index = options.gid_index, .both_ends_on_this_host = true});
	if (!device) return failed;
	if (options.child_core >= 0) pin_to(options.child_core);
	serve(*device, ends.control, &ends.page);
	return good;
}

int serve_hosts(const Options& options) {
	auto device = take(lib::open_best({.device = options.device, .gid_index = options.gid_index}));
	const int listener = bench::listen_on(options.port);
	if (!options.sweep.output.quiet)
		print_error("device: {}\nwaiting for 'verbena bench rcud --peer HOST:{}'\n", describe(device),
			bench::port_of(listener));
	bench::serve_clients(
		listener, options.once, [&](Control& control) { serve(device, control, nullptr); }, complain_of);
	return good;
}

int run(const Options& options) {
	if (options.is_child) return serve_inherited(options);
	if (options.is_server) return serve_hosts(options);
	auto files = open_outputs(options.sweep, experiment());
	if (!files) return complain(files.error());
	if (options.peer.empty()) return measure_with_own_server(options, *files);
	Control control(connect_to(options.peer, options.port, std::chrono::seconds(5)));
	return measure(options, control, nullptr, *files);
}

}  // namespace

void add_bench_rcud(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub = add_command(bench, "rcud", "RC against UD: messages a second at the receiver");
	sub->footer(
		"Examples:\n"
		"  verbena bench rcud --sizes 32,4K --windows 64 --reps 3\n"
		"  verbena bench rcud --csv rows.csv --json rows.json --md rows.md\n"
		"  verbena bench rcud --modes rc --ops send,write,read --csv -\n"
		"  verbena bench rcud --json rows.json --resume rows.json   (goes on after Ctrl-C)\n"
		"  verbena bench rcud --qps 1,10,100,1000,10000           (N queue pairs of RC against one of UD)\n"
		"  verbena bench rcud --qps 64 --senders 1,4 --sizes 64   (whose messages come from 1 and 4 threads)\n"
		"  verbena bench rcud --connect rdmacm         (RC by librdmacm)\n"
		"  verbena bench rcud --server                 (on one host)\n"
		"  verbena bench rcud --peer HOST              (on the other)\n" +
		std::string(sweep_exit_codes));
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
	Settings& settings = options->settings;

	sub->add_option("--modes", options->modes, "Transports: a list of rc, ud")->capture_default_str();
	sub->add_option("--ops", options->ops, "Operations: a list of send, write, read (UD has only send)")
		->capture_default_str();
	sub->add_option("--sizes", options->sizes, "Bytes of a message: a list; a:b is from a to b by doubling; 4K, 1M")
		->capture_default_str();
	sub->add_option("--windows", options->windows, "Messages in flight, 1 to 4096: a list")->capture_default_str();
	sub->add_option("--window-mode", options->window_mode,
		   "A list of local (the window follows own completions), credit (it follows what the receiver consumed)")
		->capture_default_str();
	sub->add_option("--iters", settings.iters, "Messages of a repetition")
		->capture_default_str()
		->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
	sub->add_option("--warmup", settings.warmup, "Messages before each repetition, not counted")
		->capture_default_str()
		->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40));
	sub->add_option("--min-time", settings.min_time_s, "Seconds of a repetition at least; raises --iters")
		->capture_default_str()
		->check(CLI::Range(0.0, 3600.0));
	sub->add_option("--post-list", settings.post_list, "Work requests of one post")
		->capture_default_str()
		->check(CLI::Range(1u, 4096u));
	sub->add_option("--signal-every", settings.signal_every, "Ask for a completion for every N-th message")
		->capture_default_str()
		->check(CLI::Range(1u, 4096u));
	sub->add_option("--inline", settings.inline_bytes, "Inline bytes asked of the device")
		->capture_default_str()
		->transform(as_size(0, 4096));
	sub->add_option("--recv-depth", settings.receive_depth, "Receives to post (0: depends on window and mode)")
		->capture_default_str()
		->check(CLI::Range(0u, 16'384u));
	sub->add_option(
		   "--receiver-delay-ns", settings.receiver_delay_ns, "Nanoseconds that a slow receiver waits for each message")
		->capture_default_str()
		->check(CLI::Range(0u, 1'000'000'000u));
	sub->add_flag("--verify", settings.verify,
		"Check every byte of every message against a seeded pattern, and measure the rate without that too; otherwise "
		"the receiver checks the length and the number of a message, in its first 8 bytes and, from 16 bytes on, in "
		"its last 8; messages below 8 bytes are only counted");
	sub->add_flag("--passive-target", settings.passive_target, "The target of READs sleeps instead of polling");
	sub->add_option("--ud-oversize", options->oversize,
		   "UD messages above the MTU: na (not run), segment (cut into datagrams, UD-seg) or raw (posted as they are)")
		->capture_default_str();
	auto* queue_pairs = sub->add_option("--qps", options->queue_pairs,
		"Queue pairs that send in turn to one receiver: a list, 1 to 65536. RC has as many at the receiver (with one "
		"SRQ), UD has one. Sizes and windows are then 64 unless they are given");
	sub->add_option("--senders", options->senders, "With --qps: threads that share the queue pairs: a list, 1 to 64")
		->capture_default_str()
		->needs(queue_pairs);
	add_sweep(*sub, options->sweep);
	add_device_option(*sub, options->device);
	add_gid_option(*sub, options->gid_index);
	sub->add_option("--connect", options->connect,
		   "Way in which RC connects: exchange (over the control connection) or rdmacm; UD has no connections")
		->capture_default_str()
		->check(CLI::IsMember({"exchange", "rdmacm"}));
	auto* server = sub->add_flag("--server", options->is_server, "Serve clients on other hosts");
	sub->add_flag("--once", options->once, "With --server: end after one client")->needs(server);
	sub->add_option("--peer", options->peer, "HOST[:PORT] of the server")->excludes(server);
	sub->add_option("--port", options->port, "Port of the control connection (TCP)")
		->capture_default_str()
		->check(CLI::Range(0u, 65'535u));
	// Hidden: for the server process that this program starts.
	sub->add_flag("--serve-inherited", options->is_child)->group("");
	sub->add_option("--core", options->child_core)->group("");

	sub->callback([options, sub, &action] {
		parse_lists(*options, *sub);
		action = [options] { return run(*options); };
	});
}

}  // namespace verbena::tools
