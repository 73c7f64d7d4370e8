// SPDX-License-Identifier: Apache-2.0
// verbena bench connect: its command line, its two processes (or one, with a peer), and its table.
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>

#include "bench/connect/environment.h"
#include "bench/connect/rdmacm.h"
#include "bench/connect/rows.h"
#include "bench/connect/trials.h"
#include "bench/far_end/server.h"
#include "tools/command_line.h"
#include "tools/commands.h"
#include "tools/device_options.h"
#include "tools/option_values.h"
#include "tools/program.h"
#include "tools/sweep_options.h"

namespace verbena::tools {
namespace {

using namespace connect;
using bench::Control;
using bench::Failure;
using bench::RoundTrip;

struct Options {
	std::string clients_text = "1,16", connect = "rdmacm";
	std::vector<std::uint64_t> clients;
	std::uint32_t count = 1000;
	std::string device, peer;
	std::optional<int> gid_index;
	SweepFlags sweep;
	bool listens = false, once = false, is_child = false;
	std::uint16_t port = 18515;
	std::string command_line;
};

void set_port(lib::SocketAddress& address, std::uint16_t port) {
	// The port is at the same offset in sockaddr_in and sockaddr_in6.
	reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(port);
}

// `server` is the peer of the control connection; it is empty for two processes of this host, and
// then `page` is the memory that they share.
int measure(const Options& options, Control& control, std::optional<lib::SocketAddress> server, RoundTrip* page,
	bench::OutputFiles& files) {
	std::optional<lib::SocketAddress> from;
	if (page != nullptr || !options.device.empty()) {
		const auto choice = choose_device(
			{.device = options.device, .gid_index = options.gid_index, .both_ends_on_this_host = page != nullptr});
		from = lib::address_of(choice.gid, 0);
	}
	Client client(control, page, options.connect);
	if (!server) server = *from;
	set_port(*server, client.port());
	RdmacmConnector connector(*server, from);
	if (!options.sweep.output.quiet)
		print_error("device: {} ({}), to {}\n", connector.device().choice.device,
			connector.device().choice.software ? "software" : "hardware", lib::format_address(server->get()));

	const auto trials = trials_of(client, connector, options.connect, options.clients, options.count);
	return run_sweep(
		experiment(), trials,
		[&](std::span<const bench::Json> rows) {
			return environment_of(connector.device(), options.connect, options.count,
				{.peer_host = options.peer, .command_line = options.command_line}, rows);
		},
		options.sweep, files);
}

std::unique_ptr<Acceptor> make_acceptor(std::string_view connect, const lib::SocketAddress& where) {
	if (connect != "rdmacm") throw Failure(fmt::format("this server does not support --connect {}", connect));
	return std::make_unique<RdmacmAcceptor>(where);
}

void serve_client(Control& control, RoundTrip* page) {
	serve(control, page, [](std::string_view connect) { return make_acceptor(connect, lib::any_address(0)); });
}

int serve_hosts(const Options& options) {
	const int listener = bench::listen_on(options.port);
	if (!options.sweep.output.quiet)
		print_error("waiting for 'verbena bench connect --peer HOST:{}'\n", bench::port_of(listener));
	bench::serve_clients(listener, options.once, [](Control& control) { serve_client(control, nullptr); }, complain_of);
	return good;
}

int run(const Options& options) {
	if (options.is_child) {
		bench::InheritedEnds ends;
		serve_client(ends.control, &ends.page);
		return good;
	}
	if (options.listens) return serve_hosts(options);
	auto files = open_outputs(options.sweep, experiment());
	if (!files) return complain(files.error());
	if (options.peer.empty()) {
		bench::OwnServer server({"bench", "connect", "--serve-inherited"});
		return measure(options, server.control(), std::nullopt, &server.page(), *files);
	}
	const int connected = bench::connect_to(options.peer, options.port, std::chrono::seconds(5));
	Control control(connected);
	lib::SocketAddress server;
	socklen_t size = sizeof server.storage;
	if (getpeername(connected, server.get(), &size) != 0) throw Failure(lib::failure("getpeername", errno));
	return measure(options, control, server, nullptr, *files);
}

}  // namespace

void add_bench_connect(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub = add_command(bench, "connect", "Connections a second, and the time that one takes");
	sub->footer(
		"Examples:\n"
		"  verbena bench connect                       two processes of this host, 1 and 16 connects under way\n"
		"  verbena bench connect --clients 64 --count 5000 --csv rows.csv\n"
		"  verbena bench connect --listen              (on one host)\n"
		"  verbena bench connect --peer HOST           (on the other)\n" +
		std::string(sweep_exit_codes));
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
	sub->add_option("--clients", options->clients_text, "Connects under way at once, 1 to 1024: a list")
		->capture_default_str();
	sub->add_option("--count", options->count, "Connections a repetition")
		->capture_default_str()
		->check(CLI::Range(1u, 50'000u));
	sub->add_option("--connect", options->connect, "Way to connect")
		->capture_default_str()
		->check(CLI::IsMember({"rdmacm"}));
	add_sweep(*sub, options->sweep);
	add_device_option(*sub, options->device);
	add_gid_option(*sub, options->gid_index);
	auto* listens = sub->add_flag("--listen", options->listens, "Serve clients on other hosts");
	sub->add_flag("--once", options->once, "With --listen: end after one client")->needs(listens);
	sub->add_option("--peer", options->peer, "HOST[:PORT] of the server")->excludes(listens);
	sub->add_option("--port", options->port, "Port of the control connection (TCP)")
		->capture_default_str()
		->check(CLI::Range(0u, 65'535u));
	// Hidden: for the server process that this program starts.
	sub->add_flag("--serve-inherited", options->is_child)->group("");

	sub->callback([options, &action] {
		options->clients = sizes_of("--clients", options->clients_text, 1024);
		options->sweep.output.settle();
		action = [options] { return run(*options); };
	});
}

}  // namespace verbena::tools
