// SPDX-License-Identifier: Apache-2.0
// The program echo_server: accepts up to 100,000 clients over RDMA or TCP and echoes their
// messages. The server itself is bench/scale/echo_service.h; this file is its command line and its
// output.
#include <fmt/format.h>

#include "bench/scale/echo_service.h"
#include "lib/metrics/export.h"
#include "tools/channel_options.h"
#include "tools/command_line.h"
#include "tools/loopback_device.h"
#include "tools/metrics_options.h"
#include "tools/option_values.h"
#include "tools/program.h"
#include "tools/server_program.h"

namespace {

struct Options : verbena::tools::ServerOptions {
	std::uint32_t max_clients = 20'000;
	std::uint32_t logical = 0;
	std::string engine = "epoll";
	double accept_rate = 0;
	bool print_config = false;
	std::string metrics, metrics_json;
	verbena::tools::ChannelOptions channel;
};

int fail(const std::string& text) {
	verbena::tools::print_error("echo_server: {}\n", text);
	return 1;
}

// The options of the service, for --print-config too.
verbena::scale::EchoOptions echo_options(
	const Options& options, const verbena::async::Address& where, const verbena::channel::Protection& protection) {
	using namespace verbena;
	const scale::Engine engine = scale::engine_of(options.engine);
	channel::RcOptions rc = channel::many_connections(
		{.units_max = std::max(8192u, options.max_clients * 6), .connections_max = options.max_clients});
	if (engine == scale::Engine::threads) rc = scale::rc_options_per_thread;
	scale::EchoOptions echo{.where = where,
		.protection = protection,
		.wish = {.device = options.device, .both_ends_on_this_host = options.listen.starts_with("127.")},
		.rc = rc,
		.acceptor = {.protection = protection, .accept_rate = options.accept_rate, .clients_max = options.max_clients},
		.engine = engine,
		.threads = options.max_clients,
		.logical = options.logical,
		.spin = options.poll_us * 1000,
		.timed = !options.metrics.empty() || !options.metrics_json.empty()};
	options.channel.apply(echo);
	return echo;
}

// The reason why the options contradict each other; empty if they do not.
std::string contradiction(const Options& options) {
	using namespace verbena::scale;
	if (engine_of(options.engine) != Engine::threads) return "";
	if (options.logical > 0)
		return "--engine threads has no logical clients: leave out --logical, or use --engine epoll";
	if (options.max_clients > engine_threads_max)
		return too_many_threads() + fmt::format(" (--max-clients is {})", options.max_clients);
	return "";
}

// Serves until a signal ends the service, with its metrics. Says `greeting` when both can be
// reached. Returns the exit code.
int serve(const Options& options, verbena::scale::EchoService& service, const std::string& greeting) {
	using namespace verbena;
	const auto collect = [&] { return service.families(); };
	std::unique_ptr<metrics::Endpoint> endpoint;
	std::optional<metrics::JsonWriter> writer;
	if (!options.metrics.empty()) {
		auto opened = metrics::Endpoint::open(options.metrics, collect);
		if (!opened) return fail(opened.error());
		endpoint = std::move(*opened);
	}
	fmt::print("{}", greeting);
	if (endpoint) fmt::print("echo_server: metrics at port {}, /metrics\n", endpoint->port());
	if (!options.metrics_json.empty()) writer.emplace(options.metrics_json, collect);
	std::fflush(stdout);
	service.run();
	endpoint.reset();
	writer.reset();
	const auto& counts = service.counts();
	const channel::AcceptorCounters& set_ups = service.acceptor_counters();
	fmt::print("echo_server: {}, {} messages echoed, {} lost, {} handshakes failed, {} of {} resumed\n",
		tools::most_clients(counts.peak.load()), counts.echoed.load(), counts.lost.load(), set_ups.failed,
		set_ups.resumed, set_ups.agreed);
	if (set_ups.evicted > 0) fmt::print("echo_server: {} clients sent away, to try again later\n", set_ups.evicted);
	return 0;
}

int run(const Options& options) {
	using namespace verbena;
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) {
		fail(trust.error());
		return 2;
	}
	auto protection = channel::make_server_protection(*trust);
	if (!protection) return fail(protection.error());
	const auto where = async::resolve(options.listen, options.port);
	if (!where) return fail(where.error());
	if (const std::string reason = contradiction(options); !reason.empty()) {
		fail(reason);
		return 2;
	}
	const scale::EchoOptions echo = echo_options(options, *where, *protection);
	if (options.print_config) {
		for (const auto& [name, value] : scale::describe(echo)) fmt::print("{} = {}\n", name, value);
		return 0;
	}
	scale::EchoService service(echo);
	if (auto started = service.start(); !started) return fail(started.error());
	const tools::StopOnSignal stops(service);
	if (!service.rdmacm_error().empty())
		fmt::print(
			stderr, "echo_server: clients can connect only over TCP, not by rdma_cm: {}\n", service.rdmacm_error());
	if (const std::string trouble = service.engine_fallback_reason(); !trouble.empty())
		verbena::tools::print_error("echo_server: {}\n", trouble);
	const channel::Path path = service.path();
	const std::string greeting = fmt::format(
		"echo_server: listening at {}:{}, {} over {} ({}, MTU {}), engine {}, at most {} clients, trusts {}\n",
		options.listen, service.port(), path.transport, path.device, path.gid, path.mtu, name_of(service.engine()),
		options.max_clients, trust->description());
	return serve(options, service, greeting);
}

}  // namespace

static int act(int argc, char** argv) {
	verbena::tools::list_loopback_device();
	Options options;
	options.port = 7471;
	verbena::tools::CommandLine app("echo_server", "Accepts many clients over RDMA (RC) and echoes their messages.");
	app.footer(
		"Examples:\n  echo_server --port 7471\n  echo_server --listen 127.0.0.1 --max-clients 20000\n"
		"  echo_server --ca ca.pem --cert server.pem --key server.key\n"
		"  echo_server --engine uring --recv-mode per_connection --receive-depth 16\n"
		"On SIGTERM it answers the messages that have arrived, closes its clients, and ends within two seconds.\n"
		"Exit codes: 0 success, 1 failure, 2 wrong usage.");
	add_listening(app, options, "Port for connecting, over TCP and by rdma_cm (0: any free one)");
	app.add_option("--max-clients,--connections-max", options.max_clients, "Clients at once; further ones are refused")
		->capture_default_str()
		->check(CLI::Range(1u, 100'000u));
	app.add_option("--engine", options.engine,
		   "epoll, uring: a fixed number of threads, which wait by this interface (epoll where the kernel refuses "
		   "io_uring); threads: one thread for each client, to judge claims about it")
		->capture_default_str()
		->check(CLI::IsMember(
			std::vector<std::string>(verbena::scale::engine_names.begin(), verbena::scale::engine_names.end())));
	app.add_option("--logical,--logical-channels-max", options.logical,
		   "Logical clients that a connection may carry (performance_test --qps); 0: a connection is one client")
		->capture_default_str()
		->check(CLI::Range(0u, 1'000'000u));
	app.add_option("--accept-rate", options.accept_rate, "New clients a second at most (0: no limit)")
		->capture_default_str()
		->check(CLI::NonNegativeNumber);
	verbena::tools::add_metrics_option(app, options.metrics,
		"Serve metrics for Prometheus at this address, under /metrics; without HOST only to this host");
	app.add_option("--metrics-json", options.metrics_json, "Write the metrics as JSON, each second and at the end")
		->type_name("FILE")
		->check(verbena::tools::not_empty());
	app.add_flag(
		"--print-config", options.print_config, "Print all numbers in use, each by the name of its option, and exit");
	add_device_and_trust(app, options);
	options.channel.add_to(app);
	if (const auto code = app.read(argc, argv)) return *code;
	setvbuf(stdout, nullptr, _IOLBF, 0);
	return run(options);
}

int main(int argc, char** argv) { return verbena::tools::run_program("echo_server", act, argc, argv); }
