// verbena bench connect: its command line, its two processes (or one, with a peer), and its table.
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "base/statistics.h"
#include "bench/connect/rdmacm.h"
#include "bench/connect/rows.h"
#include "bench/connect/session.h"
#include "bench/environment.h"
#include "bench/far_end/launch.h"
#include "bench/rcud/managed.h"
#include "tools/commands.h"
#include "tools/device_options.h"
#include "tools/option_values.h"
#include "tools/output_options.h"

namespace verbena::tools {
namespace {

using namespace connect;
using bench::Control;
using bench::Failure;
using bench::RoundTrip;
using bench::take;

struct Options {
	std::string clients_text = "1,16", connect = "rdmacm";
	std::vector<std::uint64_t> clients;
	std::uint32_t count = 1000, reps = 5;
	std::string device, peer;
	std::optional<int> gid_index;
	OutputOptions output;
	bool listens = false, once = false, is_child = false;
	std::uint16_t port = 18515;
	std::string command_line;
};

// Whether rdma_cm connects to the address of this device by it. Where the kernel has an RDMA
// device of its own for that address, rdma_cm takes that one and not the software NIC.
bool rdma_cm_serves(const lib::Choice& choice) {
	const auto at = lib::address_of(choice.gid, 0);
	const auto channel = take(lib::make_event_channel());
	if (!at) return false;
	const auto id = lib::resolve(channel.get(), *at, std::chrono::seconds(2), nullptr);
	return id && (*id)->verbs != nullptr && ibv_get_device_name((*id)->verbs->device) == choice.device;
}

// The best device that rdma_cm serves, or the one that the user named.
lib::Choice choose(const Options& options, bool local) {
	auto devices = take(lib::list_devices());
	while (true) {
		const auto choice = take(lib::choose(
			devices, {.device = options.device, .gid_index = options.gid_index, .both_ends_on_this_host = local}));
		if (rdma_cm_serves(choice)) return choice;
		if (!options.device.empty())
			throw Failure(fmt::format(
				"rdma_cm does not serve {} ({}): choose another --device", choice.device, lib::format_gid(choice.gid)));
		std::erase_if(devices, [&](const lib::DeviceInfo& each) { return each.name == choice.device; });
	}
}

// The line on a terminal that says which repetition runs and about how long the rest takes.
class ProgressLine {
public:
	explicit ProgressLine(bool shown) : shown_(shown && isatty(STDERR_FILENO) == 1) {}
	~ProgressLine() {
		if (shown_) fmt::print(stderr, "\r\033[K");
	}
	void operator()(std::size_t done, std::size_t all, std::uint64_t clients, std::uint32_t repetition) const {
		if (!shown_) return;
		const double elapsed = static_cast<double>(monotonic_now() - start_) / 1e9;
		const std::string left = done == 0
			? "?"
			: fmt::format("{:.0f} s", elapsed / static_cast<double>(done) * static_cast<double>(all - done));
		fmt::print(stderr, "\r\033[K{} of {}: {} clients, repetition {}, {} left", done + 1, all, clients,
			repetition + 1, left);
	}

private:
	bool shown_;
	Nanoseconds start_ = monotonic_now();
};

std::vector<std::pair<std::string, std::string>> environment_of(
	const Options& options, const lib::OpenDevice& device, const std::vector<double>& trips) {
	return {
		{"device", device.choice.device},
		{"kind", device.choice.software ? "software" : "hardware"},
		{"gid", lib::format_gid(device.choice.gid)},
		{"mtu", std::to_string(device.mtu_bytes())},
		{"link", options.peer.empty() ? "two processes on one host" : "to " + options.peer},
		{"connect", options.connect},
		{"cpu", bench::cpu_name()},
		{"cores", fmt::format("{}, not pinned", sysconf(_SC_NPROCESSORS_ONLN))},
		{"kernel", bench::kernel_name()},
		{"core_to_core_ns", trips.empty() ? "" : fmt::format("{:.0f}", median(trips))},
		{"commit", bench::commit()},
		{"date", bench::utc_now()},
		{"command", options.command_line},
	};
}

int write_tables(const Options& options, const Table& table) {
	std::string error;
	const auto write = [&](const std::string& path, auto render) {
		return path.empty() || write_out(path, render(table), error);
	};
	const OutputOptions& to = options.output;
	if (write(to.csv, to_csv) && write(to.json, to_json) && write(to.markdown, to_markdown)) return good;
	return complain(error);
}

void set_port(lib::SocketAddress& address, std::uint16_t port) {
	// The port is at the same offset in sockaddr_in and sockaddr_in6.
	reinterpret_cast<sockaddr_in&>(address.storage).sin_port = htons(port);
}

// `server` is the peer of the control connection; it is empty for two processes of this host, and
// then `page` is the memory that they share.
int measure(const Options& options, Control& control, std::optional<lib::SocketAddress> server, RoundTrip* page) {
	std::optional<lib::SocketAddress> from;
	if (page != nullptr || !options.device.empty()) from = lib::address_of(choose(options, page != nullptr).gid, 0);
	Client client(control, page, options.connect);
	if (!server) server = *from;
	set_port(*server, client.port());
	RdmacmConnector connector(*server, from);
	if (!options.output.quiet)
		fmt::print(stderr, "device: {} ({}), to {}\n", connector.device().choice.device,
			connector.device().choice.software ? "software" : "hardware", lib::format_address(server->get()));

	// Cells are interleaved, so that a disturbance of the machine affects all of them.
	std::vector<std::vector<Repetition>> cells(options.clients.size());
	std::vector<double> trips;
	std::string failure;
	{
		const ProgressLine progress(!options.output.quiet);
		const std::size_t all = cells.size() * options.reps;
		for (std::size_t done = 0; done < all && failure.empty(); ++done) {
			const std::size_t cell = done % cells.size();
			progress(done, all, options.clients[cell], static_cast<std::uint32_t>(done / cells.size()));
			Repetition& r = cells[cell].emplace_back(
				Repetition{.clients = static_cast<std::uint32_t>(options.clients[cell]), .count = options.count});
			try {
				client.measure(connector, r);
			} catch (const Failure& why) {
				failure = why.what();
			}
			if (r.round_trip_ns) trips.push_back(*r.round_trip_ns);
		}
	}
	Table table{environment_of(options, connector.device(), trips), {}};
	bool impossible = false;
	for (const auto& repetitions : cells) {
		if (repetitions.empty()) continue;
		table.rows.push_back(row_of(options.connect, connector.parts(), repetitions));
		impossible |= table.rows.back()["validity"] == "invalid";
	}
	const int written = write_tables(options, table);
	if (!failure.empty()) return complain(failure);
	return written != good ? written : impossible ? impossible_data : good;
}

std::unique_ptr<Acceptor> make_acceptor(std::string_view connect, const lib::SocketAddress& where) {
	if (connect != "rdmacm") throw Failure(fmt::format("this server does not support --connect {}", connect));
	return std::make_unique<RdmacmAcceptor>(where);
}

int measure_with_own_server(const Options& options) {
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw Failure(lib::failure("socketpair", errno));
	RoundTrip page = RoundTrip::create();
	Control control(ends[0]);
	const bench::ChildProcess server(
		bench::own_executable(), {"bench", "connect", "--serve-inherited"}, ends[1], page.fd());
	close(ends[1]);
	return measure(options, control, std::nullopt, &page);
}

// The process that measure_with_own_server() starts.
int serve_inherited() {
	fcntl(bench::control_fd_of_child, F_SETFD, FD_CLOEXEC);
	Control control(bench::control_fd_of_child);
	RoundTrip page = RoundTrip::open(bench::page_fd_of_child);
	serve(control, &page, [](std::string_view connect) { return make_acceptor(connect, lib::any_address(0)); });
	return good;
}

int serve_hosts(const Options& options) {
	const int listener = bench::listen_on(options.port);
	if (!options.output.quiet)
		fmt::print(stderr, "waiting for 'verbena bench connect --peer HOST:{}'\n", bench::port_of(listener));
	do {
		try {
			Control control(bench::accept_one(listener));
			serve(
				control, nullptr, [](std::string_view connect) { return make_acceptor(connect, lib::any_address(0)); });
		} catch (const Failure& failure) {
			complain(failure.what());
		}
	} while (!options.once);
	close(listener);
	return good;
}

int run(const Options& options) {
	if (options.is_child) return serve_inherited();
	if (options.listens) return serve_hosts(options);
	if (options.peer.empty()) return measure_with_own_server(options);
	const int connected = bench::connect_to(options.peer, options.port, std::chrono::seconds(5));
	Control control(connected);
	lib::SocketAddress server;
	socklen_t size = sizeof server.storage;
	if (getpeername(connected, server.get(), &size) != 0) throw Failure(lib::failure("getpeername", errno));
	return measure(options, control, server, nullptr);
}

}  // namespace

void add_bench_connect(CLI::App& bench, Action& action, const std::string& command_line) {
	CLI::App* sub = bench.add_subcommand("connect", "Connections a second, and the time that one takes");
	sub->footer(
		"Examples:\n"
		"  verbena bench connect                       two processes of this host, 1 and 16 connects under way\n"
		"  verbena bench connect --clients 64 --count 5000 --csv rows.csv\n"
		"  verbena bench connect --listen              (on one host)\n"
		"  verbena bench connect --peer HOST           (on the other)\n"
		"Exit codes: 0 success, 1 something could not be measured, 2 wrong usage, 3 a row cannot be true.");
	auto options = std::make_shared<Options>();
	options->command_line = command_line;
	sub->add_option("--clients", options->clients_text, "Connects under way at once, 1 to 1024: a list")
		->capture_default_str();
	sub->add_option("--count", options->count, "Connections a repetition")
		->capture_default_str()
		->check(CLI::Range(1u, 50'000u));
	sub->add_option("--reps", options->reps, "Repetitions, interleaved")
		->capture_default_str()
		->check(CLI::Range(1u, 1000u));
	sub->add_option("--connect", options->connect, "Way to connect")
		->capture_default_str()
		->check(CLI::IsMember({"rdmacm"}));
	add_output(*sub, options->output);
	add_device_option(*sub, options->device);
	add_gid_option(*sub, options->gid_index);
	auto* listens = sub->add_flag("--listen", options->listens, "Serve clients on other hosts");
	sub->add_flag("--once", options->once, "With --listen: end after one client")->needs(listens);
	sub->add_option("--peer", options->peer, "HOST[:PORT] of the server")->excludes(listens);
	sub->add_option("--port", options->port, "Port of the control connection (TCP)")->capture_default_str();
	// Hidden: for the server process that this program starts.
	sub->add_flag("--serve-inherited", options->is_child)->group("");

	sub->callback([options, &action] {
		options->clients = sizes_of("--clients", options->clients_text, 1024);
		options->output.settle();
		action = [options] { return run(*options); };
	});
}

}  // namespace verbena::tools
