// SPDX-License-Identifier: Apache-2.0
// The program rc_client: connects to rc_server by rdma_cm and measures one transfer, in which every
// message is checked. The measured loop is that of `verbena bench rcud` (bench/rcud/sender.h).
//
// Errors: a UsageError exits with 2, any other exception with 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/random.h"
#include "base/sizes.h"
#include "bench/rcud/connected_run.h"
#include "bench/rcud/managed.h"
#include "bench/rcud/protocol.h"
#include "bench/rcud/sender.h"
#include "tools/command_line.h"
#include "tools/loopback_device.h"
#include "tools/option_values.h"
#include "tools/program.h"
#include "tools/server_wait.h"

namespace verbena::rcud {
namespace {

using namespace std::chrono_literals;

struct Options {
	std::string server;
	std::uint16_t port = 18515;
	std::string msg = "64";
	std::string op = "send";
	std::uint32_t window = 64;
	std::uint64_t iters = 10'000;
	bool verify = false;
	double wait_s = 0;
};

struct UsageError : std::runtime_error {
	using runtime_error::runtime_error;
};

// True if the server has disconnected. Costs a system call, so the measured loop asks only when it
// makes no progress, and once every some thousand polls otherwise.
bool is_gone(rdma_event_channel* channel) {
	const auto event = take(lib::next_event(channel, 0ms));
	return event && event->type == RDMA_CM_EVENT_DISCONNECTED;
}

// A rate over a time that is mostly that of the first messages on their way cannot be true.
std::string rate_of(const Cell& cell, const Delivery& delivery) {
	constexpr std::uint64_t windows_min = 2, counted_min_ns = 1'000'000;
	if (delivery.counted < windows_min * cell.window || delivery.counted_ns < counted_min_ns)
		return "no rate (too few messages to measure one)";
	return fmt::format("{:.3f} Mops, {:.3f} GiB/s", delivery.mops(), gib_of(delivery.mops(), cell.msg));
}

int print_result(const Cell& cell, const Sent& sent, const Delivery& delivery, bool verified) {
	const std::uint64_t lost = sent.posted - std::min(sent.posted, delivery.delivered);
	std::string latency;
	if (sent.latency_ns.count() > 0)
		latency = fmt::format(", p50 {:.2f} us, p99 {:.2f} us (to the completion)",
			static_cast<double>(sent.latency_ns.quantile(0.5)) / 1e3,
			static_cast<double>(sent.latency_ns.quantile(0.99)) / 1e3);
	fmt::print("[RC Client] {} {} of {}: {} lost, {} duplicated, {} reordered, {} damaged{}, {}{}\n",
		cell.op == Op::read ? "Read correctly" : "The receiver has", delivery.delivered, sent.posted, lost,
		delivery.duplicated, delivery.reordered, delivery.corrupt, verified ? " (every byte checked)" : "",
		rate_of(cell, delivery), latency);
	const bool good = lost == 0 && delivery.duplicated == 0 && delivery.reordered == 0 && delivery.corrupt == 0;
	if (!good) throw Failure("the messages did not arrive as they were sent, although the connection is reliable");
	return 0;
}

Shape shape_on(const Cell& cell, const lib::OpenDevice& device) {
	return take(shape_of(cell, {}, {.mtu = device.mtu_bytes(), .queue_depth_max = queue_depth_of(device)}));
}

// A connection to the server. The members are destroyed from the last one to the first.
struct Session {
	Session(const lib::SocketAddress& server, const Cell& cell)
		: channel(take(lib::make_event_channel())),
		  connection(take(lib::resolve(channel.get(), server, 5s))),
		  end(connection.device, cell, shape_on(cell, connection.device), Side::sender, 64, Endpoint::default_qkey,
			  connection.id.get()) {}

	lib::EventChannel channel;
	Connection connection;
	Endpoint end;
};

// Connects; waits up to --wait seconds until the server listens.
std::unique_ptr<Session> connect(const Options& options, const Cell& cell, const Run& run) {
	const auto server = take(lib::address_of(options.server, options.port));
	const std::uint64_t deadline = now_ns() + static_cast<std::uint64_t>(options.wait_s * 1e9);
	while (true) {
		try {
			auto session = std::make_unique<Session>(server, cell);
			call(session->channel.get(), session->connection, session->end, run, 10s);
			return session;
		} catch (const NoListener&) {
			if (now_ns() >= deadline) throw;
			std::this_thread::sleep_for(tools::pause_between_attempts);
		}
	}
}

int run(const Options& options) {
	const Cell cell{.mode = Mode::rc,
		.op = options.op == "write" ? Op::write
			: options.op == "read"  ? Op::read
									: Op::send,
		.msg = static_cast<std::uint32_t>(parse_size(options.msg).value()),
		.window = options.window};
	if (const auto shape = shape_of(cell, {}, {}); !shape) throw UsageError(shape.error());
	if (const std::string reason = refusal_of(cell); !reason.empty()) throw UsageError(reason);
	if (const std::string advice = tools::advice_on_port(options.server); !advice.empty()) throw UsageError(advice);

	fmt::print("Attempting to connect...\n");
	const Run run{.number = static_cast<std::uint16_t>(lib::random_psn() | 1),
		.total = options.iters,
		.seed = options.verify ? secure_random<std::uint64_t>() | 1 : 0};
	const std::unique_ptr<Session> session = connect(options, cell, run);
	const lib::EventChannel& channel = session->channel;
	Connection& connection = session->connection;
	Endpoint& end = session->end;
	fmt::print("RDMA_CM_EVENT_ESTABLISHED! Connection successful.\n");

	Sender sender(end);
	Sent sent;
	bool gone = false;
	try {
		sender.run(
			run, [&](bool) { return (gone = gone || is_gone(channel.get())) ? Watch::abandon : Watch::go_on; }, sent);
	} catch (const Failure& failure) {
		throw Failure(fmt::format("{} after {} of {} messages",
			gone ? "the server ended the connection" : failure.what(), sent.completed, run.total));
	}
	fmt::print("[RC Client] {} messages of {} B complete ({}, window {}).\n", sent.completed, cell.msg,
		name_of(cell.op), cell.window);
	Delivery delivery = sent.read;
	if (cell.op != Op::read) {
		const RunReport report = receive_report(end, [&] { return !(gone = gone || is_gone(channel.get())); });
		if (report.question != make_stamp(run.number, run.total))
			throw Failure("the server's report belongs to another run");
		delivery = {.delivered = report.delivered,
			.duplicated = report.duplicated,
			.reordered = report.reordered,
			.corrupt = report.corrupt,
			.counted = report.counted,
			.counted_ns = report.counted_ns};
	}
	rdma_disconnect(connection.id.get());
	return print_result(cell, sent, delivery, options.verify);
}

}  // namespace
}  // namespace verbena::rcud

static int act(int argc, char** argv) {
	using namespace verbena::rcud;
	verbena::tools::list_loopback_device();
	Options options;
	verbena::tools::CommandLine app(
		"rc_client", "Connects to rc_server by rdma_cm and measures a transfer in which each message is checked.");
	app.footer(
		"Examples:\n  rc_client 10.0.0.1\n  rc_client 10.0.0.1 --port 4000 --msg 4K --window 16 --iters 200000\n"
		"  rc_client fd00::1 --op read\n"
		"Exit codes: 0 success, 1 failure, 2 wrong usage.");
	app.add_option("server_ip", options.server, "IPv4 or IPv6 address or name of the server")->required();
	app.add_option("--port", options.port, "Port of the server")->capture_default_str()->check(CLI::Range(1u, 65'535u));
	app.add_option("--msg", options.msg, "Bytes of a message")
		->capture_default_str()
		->check(verbena::tools::size_between(1, 1 << 20));
	app.add_option("--window", options.window, "Messages in flight")
		->capture_default_str()
		->check(CLI::Range(1u, 4096u));
	app.add_option("--iters", options.iters, "Number of messages")
		->capture_default_str()
		->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 40));
	app.add_option("--op", options.op, "Operation that moves the messages")
		->capture_default_str()
		->check(CLI::IsMember({"send", "write", "read"}));
	verbena::tools::add_wait_option(app, options.wait_s);
	app.add_flag("--verify", options.verify,
		"Check every byte of every message; otherwise its first and last 8 bytes, which hold its number, and its "
		"length");
	if (const auto code = app.read(argc, argv)) return *code;
	setvbuf(stdout, nullptr, _IOLBF, 0);
	try {
		return run(options);
	} catch (const UsageError& error) {
		verbena::tools::print_error("rc_client: {}\n", error.what());
		return 2;
	}
}

int main(int argc, char** argv) { return verbena::tools::run_program("rc_client", act, argc, argv); }
