// SPDX-License-Identifier: Apache-2.0
// The program kv_server: keeps keys and values in memory for clients over RDMA or TCP. The server
// itself is lib/kv/service.h; this file is its command line and its output.
#include <fmt/format.h>

#include "base/sizes.h"
#include "lib/kv/service.h"
#include "tools/command_line.h"
#include "tools/etcd_options.h"
#include "tools/kv_metrics.h"
#include "tools/loopback_device.h"
#include "tools/metrics_options.h"
#include "tools/option_values.h"
#include "tools/program.h"
#include "tools/server_program.h"

namespace {

struct Options : verbena::tools::ServerOptions {
	verbena::kv::Settings settings;
	verbena::kv::ServerOptions server;
	std::string memory = "1G", eager_max = "4096", value_max = "64M", one_sided = "0";
	std::string data, join, name;
	verbena::discovery::EtcdAccess etcd;
	std::string metrics, metrics_json;
	std::uint32_t join_lease_s = 5;
	bool print_config = false, salvage = false, evict = false;
};

int fail(const std::string& text) {
	verbena::tools::print_error("kv_server: {}\n", text);
	return 1;
}

// Serves until a signal ends the service, with its metrics. Says `greeting` when both can be
// reached.
std::expected<void, std::string> serve(
	const Options& options, verbena::kv::Service& service, const std::string& greeting) {
	using namespace verbena;
	tools::KvMetrics of_server(service);
	const auto collect = [&] { return of_server.families(); };
	std::unique_ptr<metrics::Endpoint> endpoint;
	std::optional<metrics::JsonWriter> writer;
	if (!options.metrics.empty()) {
		auto opened = metrics::Endpoint::open(options.metrics, collect, [&] { return of_server.health(); });
		if (!opened) return std::unexpected(opened.error());
		endpoint = std::move(*opened);
	}
	fmt::print("{}", greeting);
	if (endpoint) fmt::print("kv_server: metrics at port {}, /metrics and /health\n", endpoint->port());
	if (!options.metrics_json.empty()) writer.emplace(options.metrics_json, collect);
	std::fflush(stdout);
	service.run();
	of_server.ended();
	return {};
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

	std::optional<discovery::EtcdPrefix> join;
	if (!options.join.empty()) {
		const auto prefix = discovery::read_etcd(options.join, options.etcd, discovery::etcd_environment());
		if (!prefix) {
			fail(prefix.error());
			return 2;
		}
		join = *prefix;
		if (options.name.empty() && async::is_wildcard(*where)) {
			fail("--listen " + options.listen +
				" is not an address that clients can connect to: give --name HOST, or another --listen");
			return 2;
		}
	}
	if (join && (!options.data.empty() || options.settings.one_sided > 0)) {
		fail("a cluster by --join is a cache, whose keys move between its members: leave out --data and --one-sided");
		return 2;
	}
	if (options.evict && !options.data.empty()) {
		fail("--evict is for a cache, and --data keeps every key: give one of them");
		return 2;
	}
	kv::ServiceOptions service_options{.where = *where,
		.protection = *protection,
		.wish = {.device = options.device, .both_ends_on_this_host = async::is_loopback(*where)},
		.settings = options.settings,
		.server = options.server,
		.spin = options.poll_us * 1000,
		.join = join,
		.name = options.name.empty() ? options.listen : options.name,
		.join_lease_s = options.join_lease_s,
		.data = options.data,
		.salvage = options.salvage,
		.evict = options.evict,
		.version = VERBENA_VERSION,
		.timed = !options.metrics.empty() || !options.metrics_json.empty(),
		.complain = [](const std::string& what) { verbena::tools::print_error("kv_server: {}\n", what); }};
	if (options.print_config) {
		for (const auto& [name, value] : kv::describe(service_options)) fmt::print("{} = {}\n", name, value);
		return 0;
	}
	kv::Service service(std::move(service_options));
	if (auto started = service.start(); !started) return fail(started.error());
	const tools::StopOnSignal stops(service);
	const channel::Path path = service.path();
	std::string greeting = fmt::format(
		"kv_server: listening at {}:{}, {} over {} ({}, MTU {}) and tcp, rx-depth {}, tx-depth {}, eager-max {}, "
		"memory {}{}, trusts {}\n",
		options.listen, service.port(), path.transport, path.device, path.gid, path.mtu, options.settings.rx_depth,
		options.settings.tx_depth, options.settings.eager_max, options.settings.memory,
		options.evict ? " (a full store evicts keys)" : "", trust->description());
	if (join)
		greeting += fmt::format(
			"kv_server: joined {} as {} (the cluster is a cache: keys that get another server are missing until they "
			"are set again; those of this server can be set in {} s)\n",
			options.join, service.name(), options.join_lease_s);
	if (auto served = serve(options, service, greeting); !served) return fail(served.error());
	const kv::ServerCounters& counters = service.counters();
	fmt::print(
		"kv_server: {}, {} requests; SETs: {} eager, {} read, {} written, {} refused; GETs: {} eager, "
		"{} leased; {} leases expired; {} keys, {} bytes, {} registrations\n",
		tools::most_clients(service.counts().clients_peak.load()), counters.requests, counters.eager_sets,
		counters.read_sets, counters.written_sets, service.store().counters().refused, counters.eager_gets,
		counters.leased_gets, counters.leases_expired + counters.places_expired, service.store().size(),
		service.store().used(), service.counts().registrations.load());
	const kv::StoreCounters& of_store = service.store().counters();
	fmt::print("kv_server: GETs by message: {} hits, {} misses; {} keys evicted, {} expired\n", of_store.hits,
		of_store.gets - of_store.hits, of_store.evicted, of_store.expired);
	if (service.journal() != nullptr)
		fmt::print("kv_server: {} commits to {}\n", service.journal()->commits(), options.data);
	return 0;
}

void add_options(CLI::App& app, Options& options) {
	app.footer(
		"Examples:\n  kv_server\n  kv_server --port 4000 --memory 4G --eager-max 16K\n  kv_server --one-sided 64M\n"
		"  kv_server --data /var/lib/kv\n"
		"  kv_server --metrics 9401\n"
		"  kv_server --join etcd://127.0.0.1:2379/kv --listen 10.0.0.1\n"
		"  kv_server --join etcds://a:2379,b:2379,c:2379/kv --etcd-ca ca.pem --listen 10.0.0.1\n"
		"  kv_server --listen 127.0.0.1 --rx-depth 6000 --tx-depth 6000\n"
		"  kv_server --ca ca.pem --cert server.pem --key server.key\n"
		"Then start kv_client SERVER on this or another host. On SIGTERM the server closes its clients and ends within "
		"two seconds.\n"
		"Exit codes: 0 success, 1 failure, 2 wrong usage.");
	add_listening(app, options, "TCP port for connecting (0: any free one)");
	app.add_option(
		   "--rx-depth", options.settings.rx_depth, "Receive buffers to post; a single client may fill all of them")
		->capture_default_str()
		->check(CLI::Range(8u, 65'536u));
	app.add_option("--tx-depth", options.settings.tx_depth, "Send work requests of a client's connection")
		->capture_default_str()
		->check(CLI::Range(8u, 16'384u));
	const auto size_up_to = [](std::uint64_t most) { return verbena::tools::size_between(0, most); };
	app.add_option("--eager-max", options.eager_max,
		   "Bytes of key and value together below which a value travels in the message, else by rendezvous")
		->capture_default_str()
		->check(size_up_to(verbena::kv::value_max));
	app.add_option("--memory", options.memory,
		   "Memory for keys, values, their table and the state of clients; when it is full, SETs are refused, or with "
		   "--evict other keys go. The "
		   "process takes at most 1.15 times as much and 64M")
		->capture_default_str()
		->check(verbena::tools::size_between(verbena::kv::Budget::memory_min, verbena::kv::Budget::memory_max));
	app.add_flag("--evict", options.evict,
		"Be a cache: when the memory is full, a SET evicts keys that are used little (S3-FIFO). Not together with "
		"--data");
	app.add_option("--one-sided", options.one_sided,
		   "Further memory in which the server publishes keys that are read, for clients that GET by RDMA READ alone: "
		   "0 (none), or 1M or more")
		->capture_default_str()
		->check(size_up_to(verbena::kv::Index::bytes_max))
		->check([](const std::string& text) {
			const std::uint64_t size = *verbena::parse_size(text);
			return size == 0
				? std::string()
				: verbena::tools::range_error(text, size, verbena::kv::Index::bytes_min, verbena::kv::Index::bytes_max);
		});
	app.add_option("--value-max", options.value_max, "Bytes of the longest value")
		->capture_default_str()
		->check(size_up_to(verbena::kv::value_max));
	app.add_option("--max-clients", options.settings.connections_max, "Clients at once; further ones are refused")
		->capture_default_str()
		->check(CLI::Range(1u, 100'000u));
	app.add_option("--rendezvous-max", options.server.rendezvous_max,
		   "Rendezvous of one client under way at once; further ones wait")
		->capture_default_str()
		->check(CLI::Range(1u, 4000u));
	app.add_option("--lease-ms", options.server.lease_ms, "Milliseconds after which the lease of a silent client ends")
		->capture_default_str()
		->check(CLI::Range(10u, 600'000u));
	CLI::Option* const join =
		app.add_option("--join", options.join,
			   "Join the cluster of this prefix while the server runs; its clients give the server a share of the "
			   "keys. The cluster is a cache: a key that gets another server is missing until it is set again, and "
			   "never has an older value; a server that does not reach etcd for --join-lease-s loses all keys. Not "
			   "together with --data or --one-sided. With TLS: etcds://; members of one etcd cluster: "
			   "HOST:2379,HOST:2379")
			->type_name("etcd://HOST:2379/PREFIX")
			->check(verbena::tools::not_empty());
	verbena::tools::add_etcd(app, options.etcd);
	app.add_option("--name", options.name,
		   "HOST[:PORT] at which clients reach a server that joins (default: --listen and --port, which must then be "
		   "one address)")
		->check(verbena::tools::not_empty())
		->needs(join);
	app.add_option("--join-lease-s", options.join_lease_s,
		   "Seconds for which a member may answer after it has reached etcd; after which a crashed one is no longer a "
		   "member; and for which a key that gets another server cannot be set. Give all members the same")
		->capture_default_str()
		->check(CLI::Range(1u, 3600u))
		->needs(join);
	CLI::Option* const data = app.add_option("--data", options.data,
									 "Keep acknowledged SETs and DELs in this folder, and begin with its contents; "
									 "without it they are lost with "
									 "the process")
								  ->type_name("DIR")
								  ->check(verbena::tools::not_empty());
	app.add_flag("--salvage", options.salvage,
		   "Start although the folder of --data is damaged: keep its file under another name, go on with what can be "
		   "read of it, and print what is lost")
		->needs(data);
	verbena::tools::add_metrics_option(app, options.metrics,
		"Serve metrics for Prometheus at this address, under /metrics, and the server's health under /health; "
		"without HOST only to this host");
	app.add_option("--metrics-json", options.metrics_json, "Write the metrics as JSON, each second and at the end")
		->type_name("FILE")
		->check(verbena::tools::not_empty());
	app.add_flag("--print-config", options.print_config, "Print all limits in use, and exit");
	add_device_and_trust(app, options);
}

// Stores the numbers of the options that are given as sizes; parsing has checked them.
void read_sizes(Options& options) {
	options.settings.eager_max = options.server.eager_max =
		static_cast<std::uint32_t>(*verbena::parse_size(options.eager_max));
	options.settings.memory = *verbena::parse_size(options.memory);
	options.settings.one_sided = *verbena::parse_size(options.one_sided);
	options.server.value_max = static_cast<std::uint32_t>(*verbena::parse_size(options.value_max));
}

}  // namespace

static int act(int argc, char** argv) {
	verbena::tools::list_loopback_device();
	Options options;
	options.port = verbena::kv::port_default;
	verbena::tools::CommandLine app("kv_server", "Keeps keys and values in memory, for clients over RDMA (RC) or TCP.");
	add_options(app, options);
	if (const auto code = app.read(argc, argv)) return *code;
	read_sizes(options);
	setvbuf(stdout, nullptr, _IOLBF, 0);
	return run(options);
}

int main(int argc, char** argv) { return verbena::tools::run_program("kv_server", act, argc, argv); }
