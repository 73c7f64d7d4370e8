// performance_test: many clients of an echo server, all connected at once, each verifying its echoes.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <new>
#include <span>
#include <vector>

#include "bench/scale/echo_service.h"
#include "bench/scale/swarm.h"
#include "tools/trust_options.h"

namespace {

using namespace verbena;

struct Options {
	std::uint32_t clients = 10;
	std::uint32_t messages = 100;
	std::uint32_t message_bytes = 1024;
	double think_ms = 10;
	double stagger_ms = 0;
	std::string server;
	bool verbose = false;
	std::uint32_t processes = 0;
	channel::TrustOptions trust;
};

// Clients of one process: descriptors, and the time of one loop, are what binds.
constexpr std::uint32_t clients_per_process = 10'000;

int fail(const std::string& text, int code = 1) {
	fmt::print(stderr, "performance_test: {}\n", text);
	return code;
}

scale::EchoService* running = nullptr;
extern "C" void on_stop(int) {
	if (running != nullptr) running->stop();
}

// What the server's process says: once when it listens, and once when it has ended.
struct ServerReport {
	std::uint16_t port = 0;
	char error[256] = {};
	scale::ProcessUse before, after;
	std::uint64_t peak = 0, echoed = 0, lost = 0, refused = 0;
	channel::RcCounters counters;
};

void serve(const Options& options, const channel::Protection& protection, int out) {
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	ServerReport report;
	const auto say = [&] { return write(out, &report, sizeof report) == static_cast<ssize_t>(sizeof report); };
	scale::EchoService service({.where = async::resolve("127.0.0.1", 0).value(),
		.protection = protection,
		.wish = {.both_ends_on_this_host = true},
		.rc = {.units_max = std::max(8192u, options.clients * 6), .connections_max = options.clients + 16},
		.acceptor = {.protection = protection, .patience = 60'000'000'000}});
	if (auto started = service.start(); !started) {
		std::strncpy(report.error, started.error().c_str(), sizeof report.error - 1);
		say();
		return;
	}
	running = &service;
	std::signal(SIGTERM, on_stop);
	report.port = service.port();
	report.before = scale::use_of_process(getpid());
	if (!say()) return;
	service.run();
	report.after = scale::use_of_process(getpid());
	report.peak = service.counts().peak;
	report.echoed = service.counts().echoed;
	report.lost = service.counts().lost;
	report.refused = service.acceptor_counters().refused;
	report.counters = service.counters();
	say();
}

template <class T> std::span<T> shared(std::size_t count) {
	void* const at = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) throw std::bad_alloc();
	return {new (at) T[count], count};
}

int run(const Options& options) {
	const auto trust = channel::choose_trust(options.trust, channel::trust_environment());
	if (!trust) return fail(trust.error(), 2);
	// Made before anybody forks, so that the identity exists.
	auto client_protection = channel::make_client_protection(*trust);
	auto server_protection = channel::make_server_protection(*trust);
	if (!client_protection) return fail(client_protection.error());
	if (!server_protection) return fail(server_protection.error());

	std::signal(SIGPIPE, SIG_IGN);
	scale::SwarmOptions swarm{.host = options.server.empty() ? "127.0.0.1" : options.server,
		.port = 7471,
		.protection = *client_protection,
		.clients = options.clients,
		.messages = options.messages,
		.message_bytes = options.message_bytes,
		.think = static_cast<Nanoseconds>(options.think_ms * 1e6),
		.stagger = static_cast<Nanoseconds>(options.stagger_ms * 1e6)};
	ServerReport report;
	int from_server[2];
	pid_t server = 0;
	if (options.server.empty()) {
		if (pipe(from_server) != 0) return fail("no pipe");
		server = fork();
		if (server == 0) {
			close(from_server[0]);
			serve(options, *server_protection, from_server[1]);
			std::_Exit(0);
		}
		close(from_server[1]);
		if (read(from_server[0], &report, sizeof report) != static_cast<ssize_t>(sizeof report)) return fail("the server did not start");
		if (report.error[0] != '\0') return fail(report.error);
		swarm.port = report.port;
		swarm.wish.both_ends_on_this_host = true;
	}

	const std::uint32_t parts = options.processes > 0 ? options.processes : (options.clients + clients_per_process - 1) / clients_per_process;
	scale::Board& board = shared<scale::Board>(1)[0];
	const auto rows = shared<scale::ClientRow>(options.clients);
	const auto results = shared<scale::PartRows>(parts);
	std::vector<pid_t> workers;
	for (std::uint32_t part = 0; part < parts; ++part) {
		const pid_t worker = fork();
		if (worker == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			const auto first = static_cast<std::uint32_t>(std::uint64_t{options.clients} * part / parts);
			const auto last = static_cast<std::uint32_t>(std::uint64_t{options.clients} * (part + 1) / parts);
			const auto done = scale::run_part(swarm, first, last, board, rows.data(), results[part]);
			if (!done) fail(done.error());
			std::_Exit(done ? 0 : 1);
		}
		workers.push_back(worker);
	}
	bool worked = true;
	for (const pid_t worker : workers) {
		int status = 0;
		waitpid(worker, &status, 0);
		worked = worked && WIFEXITED(status) && WEXITSTATUS(status) == 0;
		if (!worked)
			for (const pid_t other : workers) kill(other, SIGKILL);
	}
	std::uint64_t threads = 0;
	if (server > 0) {
		threads = scale::use_of_process(server).threads;  // all its clients have gone or are going, its threads not yet
		kill(server, SIGTERM);
		if (read(from_server[0], &report, sizeof report) != static_cast<ssize_t>(sizeof report)) fail("the server ended without its report");
		waitpid(server, nullptr, 0);
	}
	if (!worked) return fail("a process of clients failed");

	Histogram connect, latency;
	for (const auto& each : results) {
		connect.merge(each.connect);
		latency.merge(each.latency);
	}
	std::uint64_t echoes = 0, good = 0, failures[scale::causes] = {};
	double connect_sum = 0, latency_sum = 0;
	std::uint32_t connected = 0;
	for (std::uint32_t i = 0; i < options.clients; ++i) {
		const scale::ClientRow& row = rows[i];
		++failures[static_cast<std::size_t>(row.cause)];
		echoes += row.echoes;
		good += row.cause == scale::Cause::none;
		connected += row.connected;
		connect_sum += row.connected ? row.connect_ms : 0;
		latency_sum += row.latency_ms * static_cast<float>(options.messages);
		if (options.verbose)
			fmt::print("client {:5}: {}, connected in {:.2f} ms, {} echoes, {:.3f} ms each\n", i,
				row.cause == scale::Cause::none ? "good" : row.cause == scale::Cause::connect ? "NOT CONNECTED" : "FAILED", row.connect_ms, row.echoes,
				row.latency_ms);
	}
	for (const auto& each : results)
		if (each.first_failure[0] != '\0') fmt::print(stderr, "performance_test: {}\n", each.first_failure);
	const double seconds = static_cast<double>(board.ended.load() - board.began.load()) / 1e9;
	const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e6; };
	fmt::print("{:>8} {:>9} {:>15} {:>15} {:>10} {:>15} {:>13}\n", "clients", "success", "avg connect ms", "avg latency ms", "msg/s", "peak memory MB",
		"peak threads");
	fmt::print("{:>8} {:>8.2f}% {:>15.3f} {:>15.4f} {:>10.0f} {:>15} {:>13}\n", options.clients, 100.0 * static_cast<double>(good) / options.clients,
		connected > 0 ? connect_sum / connected : 0, echoes > 0 ? latency_sum / static_cast<double>(echoes) : 0,
		seconds > 0 ? static_cast<double>(echoes) / seconds : 0,
		server > 0 ? fmt::format("{:.1f}", static_cast<double>(report.after.peak_resident_bytes) / (1 << 20)) : "n/a",
		server > 0 ? fmt::format("{}", threads) : "n/a");
	fmt::print("connect ms p50 {:.2f} p99 {:.2f} p99.9 {:.2f} max {:.2f}; latency ms p50 {:.4f} p99 {:.4f} p99.9 {:.4f} max {:.4f}\n",
		ms(connect.quantile(0.5)), ms(connect.quantile(0.99)), ms(connect.quantile(0.999)), ms(connect.max()), ms(latency.quantile(0.5)),
		ms(latency.quantile(0.99)), ms(latency.quantile(0.999)), ms(latency.max()));
	if (server > 0) {
		const double setup_cpu = report.after.cpu_seconds - report.before.cpu_seconds;
		fmt::print("server: {} clients at once, {} echoed, {} lost, {} refused; {:.2f} CPU s; {} + {} context switches; {:.1f} KiB a connection\n",
			report.peak, report.echoed, report.lost, report.refused, setup_cpu, report.after.voluntary_switches, report.after.involuntary_switches,
			static_cast<double>(report.after.peak_resident_bytes - report.before.resident_bytes) / 1024 / options.clients);
		const auto& c = report.counters;
		fmt::print("server: {} frames in, {} out ({} inline, {} of credits, {} of want), {} messages coalesced\n", c.frames_received, c.frames_sent,
			c.frames_inline, c.credit_frames, c.want_frames, c.messages_coalesced);
	}
	fmt::print("failures: {} connect, {} lost, {} wrong echo\n", failures[1], failures[2], failures[3]);
	return good == options.clients ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
	Options options;
	CLI::App app("Many clients of an echo server: every one a connection of its own, all at once, every echo verified.", "performance_test");
	app.footer(
		"Examples:\n  performance_test -c 10 -v\n  performance_test -c 1000 -n 5 -d 5\n  performance_test -c 100 -s 10.0.0.1:7471\n"
		"Exit codes: 0 all clients good, 1 some failed, 2 usage.");
	app.add_option("-c", options.clients, "Clients")->capture_default_str()->check(CLI::Range(1u, 100'000u));
	app.add_option("-n", options.messages, "Messages of each client")->capture_default_str()->check(CLI::Range(1u, 1'000'000'000u));
	app.add_option("-m", options.message_bytes, "Bytes of a message")->capture_default_str()->check(CLI::Range(1u, 64u << 20));
	app.add_option("-t", options.think_ms, "Milliseconds between an echo and the next message")->capture_default_str()->check(CLI::NonNegativeNumber);
	app.add_option("-d", options.stagger_ms, "Client i waits (i mod 10) times so many milliseconds before it connects")
		->capture_default_str()
		->check(CLI::NonNegativeNumber);
	app.add_option("-s", options.server, "HOST[:PORT] of an echo_server; without it a process of its own is started");
	app.add_flag("-v", options.verbose, "A line for each client");
	app.add_option("--processes", options.processes, "Processes that the clients are spread over; 0: as many as it takes")->capture_default_str();
	verbena::tools::add_trust(app, options.trust);
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError& error) {
		return app.exit(error) == 0 ? 0 : 2;
	}
	setvbuf(stdout, nullptr, _IOLBF, 0);
	try {
		return run(options);
	} catch (const std::exception& error) {
		return fail(error.what());
	}
}
