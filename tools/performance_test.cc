// SPDX-License-Identifier: Apache-2.0
// The program performance_test: many clients of an echo server, all connected at once, each of
// which verifies its echoes. One run of bench/scale/cell_run.h, with the options and columns of the
// published test program. Its row is judged as those of `verbena bench scale` are.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>

#include "base/sizes.h"
#include "bench/judge/judge.h"
#include "bench/scale/cell_run.h"
#include "bench/scale/environment.h"
#include "bench/scale/repetition.h"
#include "bench/scale/rows.h"
#include "bench/sweep/output.h"
#include "bench/table/table.h"
#include "lib/channel/transports_by_address.h"
#include "lib/verbs/device.h"
#include "tools/command_line.h"
#include "tools/loopback_device.h"
#include "tools/metrics_options.h"
#include "tools/option_values.h"
#include "tools/program.h"
#include "tools/server_wait.h"
#include "tools/server_words.h"
#include "tools/trust_options.h"

namespace {

using namespace verbena;
using scale::Cause;

struct Options {
	scale::RunOptions run;
	double think_ms = 10, stagger_ms = 0, hold_s = 0, duration_s = 0, timeout_s = 60, connect_timeout_s = 120;
	double wait_s = 0;
	std::string server, engine = "epoll", transport = "rdma", connect = "tls-psn", json, device;
	bool verbose = false;
	channel::TrustOptions trust;
	std::string command_line;
};

int fail(const std::string& text, int code = 1) {
	verbena::tools::print_error("performance_test: {}\n", text);
	return code;
}

Nanoseconds nanoseconds(double seconds) { return static_cast<Nanoseconds>(seconds * 1e9); }

void print_clients(std::FILE* out, const scale::Outcome& run) {
	for (std::size_t i = 0; i < run.rows.size(); ++i) {
		const scale::ClientRow& row = run.rows[i];
		const std::string word = row.cause == Cause::none ? "good"
			: row.connected                               ? fmt::format("FAILED ({})", name_of(row.cause))
														  : fmt::format("NOT CONNECTED ({})", name_of(row.cause));
		fmt::print(out, "client {:5}: {}, connected in {:.2f} ms, {} echoes, {:.3f} ms each\n", i, word, row.connect_ms,
			row.echoes, row.latency_ms);
	}
}

// The number in a column of the row, or "n/a".
std::string figure(const bench::Json& row, const char* column, int digits) {
	const auto number = bench::number_of(row, column);
	return number ? fmt::format("{:.{}f}", number->value, digits) : "n/a";
}

std::string percentiles(const bench::Json& row, const std::string& of, int digits) {
	const auto at = [&](const char* percentile) {
		return figure(row, fmt::format("{}_{}_ms", of, percentile).c_str(), digits);
	};
	return fmt::format("{} ms p50 {} p99 {} p99.9 {} max {}", of, at("p50"), at("p99"), at("p999"), at("max"));
}

// Prints the columns of the published test program.
void print_published(std::FILE* out, const bench::Json& row) {
	fmt::print(out, "{:>8} {:>9} {:>15} {:>15} {:>10} {:>15} {:>13}\n", "clients", "success", "avg connect ms",
		"avg latency ms", "msg/s", "peak memory MB", "peak threads");
	fmt::print(out, "{:>8} {:>8}% {:>15} {:>15} {:>10} {:>15} {:>13}\n", bench::word_of(row, "clients"),
		figure(row, "success_percent", 2), figure(row, "avg_connect_ms", 3), figure(row, "avg_latency_ms", 4),
		figure(row, "messages_per_second", 0), figure(row, "peak_memory_mb", 1), figure(row, "peak_threads", 0));
}

// Prints the use of the processes of one side while messages were sent.
std::string use_of(const bench::Json& repetition, const std::string& side) {
	const auto cpu = bench::number_of(repetition, side + "_cpu_ns");
	return fmt::format("{} CPU s, {} context switches while messages were sent",
		cpu ? fmt::format("{:.2f}", cpu->value / 1e9) : "n/a", figure(repetition, (side + "_switches").c_str(), 0));
}

void print_server(std::FILE* out, const scale::Outcome& run, const bench::Json& row) {
	const scale::ServerAccount& server = *run.server;
	fmt::print(out, "server: engine {}\n", name_of(run.cell.engine));
	fmt::print(out, "server: {}; {:.2f} CPU s in total\n", use_of(row["repetitions"][0], "server"),
		server.after.cpu_seconds - server.before.cpu_seconds);
	fmt::print(out,
		"server: {} clients at once, {} echoed, {} lost, {} refused; {} QPs; {} KiB a connection, {} at the peak\n",
		server.peak, server.echoed, server.lost, server.refused, server.queue_pairs,
		figure(row, "server_kib_per_connection", 1), figure(row, "server_peak_kib_per_connection", 1));
	if (run.cell.logical())
		fmt::print(
			out, "server: {} different logical clients on {} connections\n", server.labels, run.cell.queue_pairs);
	const auto& c = server.counters;
	if (run.cell.transport == scale::Transport::rdma)
		fmt::print(out,
			"server: {} frames in, {} out ({} inline, {} that only grant credits, {} that ask for credits), {} "
			"messages coalesced\n",
			c.frames_received, c.frames_sent, c.frames_inline, c.credit_frames, c.want_frames, c.messages_coalesced);
	if (bench::has_value(row, "server_idle_cpu_percent"))
		fmt::print(out, "server: {} % of a core while {} clients are connected and idle\n",
			figure(row, "server_idle_cpu_percent", 2), run.connected);
}

void print_failures(std::FILE* out, const scale::Outcome& run) {
	const auto failed = [&](Cause cause) { return run.failures[static_cast<std::size_t>(cause)]; };
	fmt::print(out, "failures: {} connect, {} lost, {} wrong echo, {} timed out\n", failed(Cause::connect),
		failed(Cause::lost), failed(Cause::wrong_echo), failed(Cause::timed_out));
	if (const auto descriptors = failed(Cause::descriptors), ports = failed(Cause::ports); descriptors + ports > 0)
		fmt::print(out,
			"a shortage on this host, not a failure of the server: {} clients got no descriptor (raise ulimit -n), {} "
			"got no port\n",
			descriptors, ports);
}

// Prints the transport and device, then the published columns, then the figures they leave out.
void print(std::FILE* out, const scale::Outcome& run, const bench::Json& row) {
	const channel::Path& path = run.path;
	fmt::print(out, "path: {}{}, connected by {}\n", path.transport,
		path.device.empty() ? "" : fmt::format(" over {} ({}, MTU {})", path.device, path.gid, path.mtu),
		name_of(run.cell.connect_by));
	print_published(out, row);
	fmt::print(out, "fairness (Jain's index of the clients' echoes): {}\n", figure(row, "jain", 4));
	fmt::print(out, "{}; {}\n", percentiles(row, "connect", 2), percentiles(row, "latency", 4));
	fmt::print(out, "{} connected in {:.3f} s from the first SYN: {} connections/s\n", run.connected,
		static_cast<double>(run.connecting_ns) / 1e9, figure(row, "connections_per_s", 0));
	if (run.cell.timed()) fmt::print(out, "measured for {:.2f} s\n", static_cast<double>(run.window_ns()) / 1e9);
	fmt::print(out, "clients: {}\n", use_of(row["repetitions"][0], "clients"));
	if (run.server) print_server(out, run, row);
	print_failures(out, run);
	const std::string reason = bench::word_of(row, "reason");
	fmt::print(out, "judged: {}{}{}\n", bench::word_of(row, "validity"), reason.empty() ? "" : ": ", reason);
}

// The table of the run, which has one row.
bench::Table table_of(const Options& options, const scale::Outcome& run) {
	const bench::Json row = scale::row_of(columns_of(run.cell), bench::Json::array({json_of(run)}));
	const channel::Path& path = run.server ? run.server->path : run.path;
	const scale::Surroundings surroundings{.device = {.device = path.device,
											   .kind = path.device.empty()         ? ""
												   : lib::is_software(path.device) ? "software"
																				   : "hardware",
											   .gid = path.gid,
											   .mtu = path.device.empty() ? "" : std::to_string(path.mtu),
											   .link = {}},
		.server = run.server ? "own" : options.server,
		.settings = fmt::format("processes {}, hold {} s", options.run.processes, options.hold_s),
		.command_line = options.command_line};
	bench::Table table{.environment = scale::environment_of(surroundings, std::span(&row, 1)), .rows = {row}};
	judge_measured(scale::experiment(), table);
	return table;
}

int run(Options& options) {
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) return fail(trust.error(), 2);
	if (!options.server.empty())
		if (const std::string mistake = tools::mistake_in_list(options.server); !mistake.empty())
			return fail(mistake, 2);
	// Made before run_cell() forks: both processes then read the same identity file.
	auto client_protection = channel::make_client_protection(*trust);
	auto server_protection = channel::make_server_protection(*trust);
	if (!client_protection) return fail(client_protection.error());
	if (!server_protection) return fail(server_protection.error());

	scale::RunOptions& cell = options.run;
	scale::SwarmOptions& swarm = cell.swarm;
	cell.own_server = options.server.empty();
	cell.server_protection = *server_protection;
	swarm.protection = *client_protection;
	const std::string_view servers = options.server.empty() ? "127.0.0.1" : std::string_view(options.server);
	for (const std::string_view each : split(servers)) swarm.hosts.emplace_back(each);
	swarm.port = 7471;
	cell.engine = scale::engine_of(options.engine);
	swarm.transport = options.transport == "tcp" ? scale::Transport::tcp : scale::Transport::rdma;
	swarm.connect_by = options.connect == "rdmacm" ? scale::ConnectBy::rdmacm : scale::ConnectBy::tls_psn;
	if (swarm.connect_by == scale::ConnectBy::rdmacm && swarm.transport == scale::Transport::tcp)
		return fail(fmt::format("{}: leave out --connect rdmacm or --transport tcp", scale::tcp_by_rdmacm), 2);
	swarm.think = nanoseconds(options.think_ms / 1e3);
	swarm.stagger = nanoseconds(options.stagger_ms / 1e3);
	swarm.hold = nanoseconds(options.hold_s);
	swarm.echo_patience = nanoseconds(options.timeout_s);
	swarm.patience = nanoseconds(options.connect_timeout_s);
	swarm.duration = nanoseconds(options.duration_s);
	if (swarm.timed()) swarm.messages = 0;
	swarm.wish.both_ends_on_this_host = true;
	std::vector<async::Address> addresses;
	for (const std::string& host : swarm.hosts) {
		const auto address = async::resolve(host, swarm.port);
		if (!address) return fail(address.error());
		if (!cell.own_server) verbena::tools::wait_for_listener(*address, options.wait_s);
		swarm.wish.both_ends_on_this_host = swarm.wish.both_ends_on_this_host && async::is_loopback(*address);
		addresses.push_back(*address);
	}
	swarm.wish.device = options.device.empty() ? channel::device_towards(addresses) : options.device;

	// Before the run: its results must not be lost for a wrong name.
	auto files = bench::OutputFiles::open({.json = options.json}, scale::experiment().columns);
	if (!files) return fail(files.error());

	// With --json - standard output belongs to the JSON.
	std::FILE* const out = options.json == "-" ? stderr : stdout;
	cell.metrics_opened = [out](std::uint16_t port) { fmt::print(out, "metrics at port {}, /metrics\n", port); };
	const auto outcome = scale::run_cell(cell, [out](const scale::Moment& moment) {
		if (moment.doing == std::string_view("connected"))
			fmt::print(out, "{} of {} clients are connected, after {:.3f} s\n", moment.connected, moment.clients,
				static_cast<double>(moment.since) / 1e9);
	});
	if (!outcome) return fail(outcome.error());
	if (outcome->server && !outcome->server->engine_fallback_reason.empty())
		verbena::tools::print_error("performance_test: {}\n", outcome->server->engine_fallback_reason);
	if (options.verbose) print_clients(out, *outcome);
	for (const std::string& each : outcome->first_failures) verbena::tools::print_error("performance_test: {}\n", each);
	const bench::Table table = table_of(options, *outcome);
	print(out, *outcome, table.rows.front());
	if (const auto written = files->write_last(table); !written) return fail(written.error());
	if (table.rows.front()["validity"] == "invalid") return 3;
	return outcome->good == outcome->cell.clients ? 0 : 1;
}

void add_options(CLI::App& app, Options& options) {
	scale::SwarmOptions& swarm = options.run.swarm;
	app.footer(
		"Examples:\n  performance_test -c 10 -v\n  performance_test -c 1000 -n 5 -d 5\n  performance_test -c 100 -s "
		"10.0.0.1:7471\n"
		"  performance_test -c 100 -s 10.0.0.1:7471,10.0.0.2:7471\n  performance_test -c 1000 --qps 16 --hold 5\n"
		"  performance_test -c 1000 --duration 5 --rate 2000 --transport tcp\n"
		"Latency is from sending a message to its verified echo; with --rate, from when the message was due.\n"
		"The time to connect begins when a client wants to connect, and includes waiting for its turn\n"
		"(--handshakes) and in the server's queue. A shortage of descriptors or ports on this host is not\n"
		"counted as a failure of the server.\n"
		"Exit codes: 0 all clients succeeded, 1 a client failed, 2 wrong usage, 3 the row cannot be true.");
	app.add_option("-c", swarm.clients, "Number of clients")->capture_default_str()->check(CLI::Range(1u, 100'000u));
	auto* messages = app.add_option("-n", swarm.messages, "Messages of each client")
						 ->capture_default_str()
						 ->check(CLI::Range(1u, 1'000'000'000u));
	app.add_option("-m", swarm.message_bytes, "Bytes of a message")
		->capture_default_str()
		->transform(verbena::tools::as_size(1, 64u << 20));
	app.add_option("-t", options.think_ms, "Milliseconds between an echo and the next message")
		->capture_default_str()
		->check(CLI::Range(0.0, 1e9));
	app.add_option(
		   "-d", options.stagger_ms, "Client i waits (i mod 10) times this many milliseconds before it connects")
		->capture_default_str()
		->check(CLI::Range(0.0, 1e9));
	app.add_option("-s", options.server,
		   "HOST[:PORT] of an echo_server, or a list of servers that share the clients (default: start a server here)")
		->check(verbena::tools::not_empty());
	verbena::tools::add_wait_option(app, options.wait_s);
	app.add_option("--engine", options.engine,
		   "Engine of a server started here: epoll, uring (io_uring; epoll where the kernel refuses it), threads (one "
		   "for each client)")
		->capture_default_str()
		->check(CLI::IsMember(std::vector<std::string>(scale::engine_names.begin(), scale::engine_names.end())));
	app.add_option("--stalled", options.run.stalled,
		   "Connections that begin a handshake before the first client and then stall")
		->check(CLI::Range(0u, 10'000u));
	app.add_option(
		   "--timeout-s", options.timeout_s, "Seconds without an echo after which a client fails; 0: it waits for ever")
		->capture_default_str()
		->check(CLI::Range(0.0, 1e6));
	app.add_option("--connect-timeout-s", options.connect_timeout_s,
		   "Seconds for the set-up of a client, with its wait in the server's queue")
		->capture_default_str()
		->check(CLI::Range(0.001, 1e6));
	app.add_flag("-v", options.verbose, "Print a line for each client");
	app.add_option("--window", swarm.window, "Messages of a client under way at once")
		->capture_default_str()
		->check(CLI::Range(1u, 1024u));
	app.add_option("--qps", swarm.queue_pairs,
		   "Connections that the clients share as logical channels; 0: each client has its own")
		->capture_default_str()
		->check(CLI::Range(0u, 4096u));
	app.add_option("--duration", options.duration_s, "Seconds during which messages are sent, instead of -n")
		->check(CLI::Range(0.01, 1e6))
		->excludes(messages);
	app.add_option("--rate", swarm.rate, "Messages a second of all clients together, evenly spaced, instead of -t")
		->check(CLI::Range(0.001, 1e9));
	app.add_option("--hold", options.hold_s, "Seconds for which all clients stay connected after the last echo")
		->check(CLI::Range(0.0, 1e6));
	app.add_option("--transport", options.transport, "Transport of the messages")
		->capture_default_str()
		->check(CLI::IsMember({"rdma", "tcp"}));
	app.add_option(
		   "--connect", options.connect, "Way in which RDMA clients connect: over TCP or by rdma_cm, both with TLS")
		->capture_default_str()
		->check(CLI::IsMember({"tls-psn", "rdmacm"}));
	app.add_option("--device", options.device, "RDMA device (default: the one that leads to the servers)");
	app.add_option("--json", options.json, "Write a JSON table like that of verbena bench scale (- is standard output)")
		->type_name("FILE");
	verbena::tools::add_metrics_option(app, options.run.metrics,
		"Serve times to connect and round trips for Prometheus at this address while it runs");
	app.add_option(
		   "--processes", options.run.processes, "Processes that the clients are spread over; 0: as many as needed")
		->capture_default_str();
	app.add_option("--handshakes", swarm.handshakes,
		   "Clients of a process that connect at once, while the others wait; 0: all at once")
		->capture_default_str();
	verbena::tools::add_trust(app, options.trust);
}

}  // namespace

static int act(int argc, char** argv) {
	verbena::tools::list_loopback_device();
	Options options;
	options.command_line = "performance_test";
	for (int i = 1; i < argc; ++i) options.command_line += std::string(" ") + argv[i];
	tools::CommandLine app(
		"performance_test", "Runs many clients of an echo server, all connected at once, and verifies every echo.");
	add_options(app, options);
	if (const auto code = app.read(argc, argv)) return *code;
	setvbuf(stdout, nullptr, _IOLBF, 0);
	return run(options);
}

int main(int argc, char** argv) { return verbena::tools::run_program("performance_test", act, argc, argv); }
