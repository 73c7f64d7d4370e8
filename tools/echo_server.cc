// echo_server: accepts up to 100,000 clients over RDMA and echoes their messages.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>

#include "bench/scale/echo_service.h"
#include "tools/trust_options.h"

namespace {

verbena::scale::EchoService* running = nullptr;

extern "C" void on_signal(int) {
	if (running != nullptr) running->stop();
}

struct Options {
	std::string listen = "0.0.0.0";
	std::uint16_t port = 7471;
	std::uint32_t max_clients = 20'000;
	double accept_rate = 0;
	std::string device;
	std::uint32_t poll_us = 50;
	bool print_config = false;
	verbena::channel::TrustOptions trust;
};

int fail(const std::string& text) {
	fmt::print(stderr, "echo_server: {}\n", text);
	return 1;
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

	channel::RcOptions rc{.units_max = std::max(8192u, options.max_clients * 6), .connections_max = options.max_clients};
	if (options.print_config) {
		for (const auto& [name, value] : channel::describe(rc)) fmt::print("{} = {}\n", name, value);
		return 0;
	}
	scale::EchoService service({.where = *where,
		.protection = *protection,
		.wish = {.device = options.device, .both_ends_on_this_host = options.listen.starts_with("127.")},
		.rc = rc,
		.acceptor = {.protection = *protection, .accept_rate = options.accept_rate},
		.spin = options.poll_us * 1000});
	if (auto started = service.start(); !started) return fail(started.error());
	running = &service;
	std::signal(SIGTERM, on_signal);
	std::signal(SIGINT, on_signal);
	const channel::Path path = service.path();
	fmt::print("echo_server: listening at {}:{}, {} over {} ({}, MTU {}), at most {} clients, trusts {}\n", options.listen, service.port(),
		path.transport, path.device, path.gid, path.mtu, options.max_clients, trust->description());
	std::fflush(stdout);
	service.run();
	running = nullptr;
	const auto& counts = service.counts();
	fmt::print("echo_server: {} clients at most, {} messages echoed, {} lost, {} handshakes failed, {} of {} resumed\n", counts.peak.load(),
		counts.echoed.load(), counts.lost.load(), service.acceptor_counters().failed, service.acceptor_counters().resumed,
		service.acceptor_counters().agreed);
	return 0;
}

}  // namespace

int main(int argc, char** argv) {
	Options options;
	CLI::App app("Accepts many clients over RDMA (RC) and echoes their messages.", "echo_server");
	app.footer(
		"Examples:\n  echo_server --port 7471\n  echo_server --listen 127.0.0.1 --max-clients 20000\n"
		"  echo_server --ca ca.pem --cert server.pem --key server.key\n"
		"SIGTERM closes the clients and ends within two seconds.\nExit codes: 0 good, 1 failed, 2 usage.");
	app.add_option("--listen", options.listen, "Address to listen at")->capture_default_str();
	app.add_option("--port", options.port, "TCP port of the set-up; 0: any free one")->capture_default_str();
	app.add_option("--max-clients", options.max_clients, "Further ones are refused")
		->capture_default_str()
		->check(CLI::Range(1u, 100'000u));
	app.add_option("--accept-rate", options.accept_rate, "New clients a second, 0: as they come")
		->capture_default_str()
		->check(CLI::NonNegativeNumber);
	app.add_option("--device", options.device, "RDMA device; without it the best one ('verbena devices')");
	app.add_option("--poll-us", options.poll_us, "Microseconds to poll after the last work before sleeping")->capture_default_str();
	app.add_flag("--print-config", options.print_config, "Print the channel's numbers and end");
	verbena::tools::add_trust(app, options.trust);
	try {
		app.parse(argc, argv);
	} catch (const CLI::ParseError& error) {
		return app.exit(error) == 0 ? 0 : 2;
	}
	setvbuf(stdout, nullptr, _IOLBF, 0);
	return run(options);
}
