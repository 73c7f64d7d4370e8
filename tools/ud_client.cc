// SPDX-License-Identifier: Apache-2.0
// The program ud_client: sends one UD message to ud_server or, with --iters, a measured run. The
// measured loop is that of `verbena bench rcud` (bench/rcud/sender.h).
//
// Errors: a UsageError exits with 2, any other exception with 1.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "base/random.h"
#include "base/sizes.h"
#include "bench/rcud/datagram_run.h"
#include "bench/rcud/sender.h"
#include "tools/command_line.h"
#include "tools/device_options.h"
#include "tools/loopback_device.h"
#include "tools/option_values.h"
#include "tools/program.h"

namespace verbena::rcud {
namespace {

struct Options {
	std::string gid, qpn, qkey;
	std::string msg = "64";
	std::uint32_t window = 64;
	std::uint64_t iters = 0;
	bool no_answer = false, verify = false;
	lib::DeviceRequest wish;
};

struct UsageError : std::runtime_error {
	using runtime_error::runtime_error;
};

std::uint32_t parse_number(std::string_view text, std::uint32_t largest, const char* what) {
	const bool hex = text.starts_with("0x") || text.starts_with("0X");
	const std::string_view digits = hex ? text.substr(2) : text;
	std::uint32_t number = 0;
	const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, hex ? 16 : 10);
	if (error != std::errc() || rest != digits.data() + digits.size() || number > largest)
		throw UsageError(fmt::format("'{}' is not a {}", text, what));
	return number;
}

// Posts one datagram that asks the server for its report on the run `question` (datagram_run.h).
// The caller polls the completion queue, for this datagram's completion and for the answer.
void ask(Endpoint& end, std::uint64_t question) {
	std::memcpy(end.slot_at(0), &question, sizeof question);
	ibv_sge piece{
		.addr = reinterpret_cast<std::uint64_t>(end.slot_at(0)), .length = sizeof question, .lkey = end.memory->lkey};
	ibv_send_wr request{};
	request.sg_list = &piece;
	request.num_sge = 1;
	request.opcode = IBV_WR_SEND_WITH_IMM;
	request.send_flags = IBV_SEND_SIGNALED;
	request.imm_data = htonl(end_of_run_imm);
	request.wr.ud = {.ah = end.ah.get(), .remote_qpn = end.remote.qpn, .remote_qkey = end.remote.qkey};
	ibv_send_wr* bad = nullptr;
	check_posted(ibv_post_send(end.qp.get(), &request, &bad), "ibv_post_send");
}

// Asks every 50 ms for two seconds, because a question or its answer may be lost.
RunReport fetch_report(Endpoint& end, std::uint64_t question) {
	ibv_wc completions[poll_batch];
	for (int attempt = 0; attempt < 40; ++attempt) {
		ask(end, question);
		for (const std::uint64_t until = now_ns() + 50'000'000; now_ns() < until;) {
			const int n = poll(end.cq.get(), completions);
			for (int i = 0; i < n; ++i) {
				check_status(completions[i], "question");
				if ((completions[i].opcode & IBV_WC_RECV) == 0 || completions[i].byte_len < 40 + sizeof(RunReport))
					continue;
				RunReport report;
				std::memcpy(&report, end.receive_at(static_cast<std::uint32_t>(completions[i].wr_id)), sizeof report);
				if (report.question == question) return report;
			}
		}
	}
	throw Failure(
		"no answer from that GID, QPN and Q_Key, so the messages are lost: check that ud_server runs and that its "
		"address is right");
}

int run_measured(Endpoint& end, Sender& sender, const Options& options) {
	const Run run{.number = static_cast<std::uint16_t>(lib::random_psn() | 1),
		.total = options.iters,
		.seed = options.verify ? seed_for(end.remote.qpn, end.remote.qkey) : 0};
	Sent sent;
	sender.run(run, [](bool) { return Watch::go_on; }, sent);
	fmt::print("[UD Client] {} messages sent.\n", sent.completed);
	const RunReport report = fetch_report(end, make_stamp(run.number, sent.posted));
	const Delivery delivery{.delivered = report.delivered, .counted = report.counted, .counted_ns = report.counted_ns};
	fmt::print(
		"[UD Client] The receiver has {} of {}: {} lost, {} duplicated, {} reordered, {} damaged, {:.3f} Mops, p50 "
		"{:.2f} us, p99 "
		"{:.2f} us (to the "
		"local completion)\n",
		report.delivered, sent.posted, sent.posted - std::min(sent.posted, report.delivered), report.duplicated,
		report.reordered, report.corrupt, delivery.mops(), static_cast<double>(sent.latency_ns.quantile(0.5)) / 1e3,
		static_cast<double>(sent.latency_ns.quantile(0.99)) / 1e3);
	if (report.delivered == 0 && report.message_max < end.cell.msg)
		throw Failure(
			fmt::format("the receiver got no message: its receives hold only {} B; start it with ud_server --msg {}",
				report.message_max, end.cell.msg));
	if (report.corrupt != 0)
		throw Failure(fmt::format("{} messages are not what was sent{}", report.corrupt,
			report.delivered == 0 ? "; both ends need --verify, or neither" : ""));
	if (report.delivered == 0 && options.verify)
		throw Failure("the receiver got no message with the bytes of --verify; does ud_server run with --verify?");
	if (report.delivered == 0) throw Failure("the receiver got no message");
	return 0;
}

// Sends one message without a stamp.
void send_one(Endpoint& end) {
	constexpr std::string_view text = "Hello from ud_client";
	std::memcpy(end.slot_at(0), text.data(), std::min<std::size_t>(text.size(), end.cell.msg));
	ibv_sge piece{
		.addr = reinterpret_cast<std::uint64_t>(end.slot_at(0)), .length = end.cell.msg, .lkey = end.memory->lkey};
	ibv_send_wr request{};
	request.sg_list = &piece;
	request.num_sge = 1;
	request.opcode = IBV_WR_SEND;
	request.send_flags = IBV_SEND_SIGNALED;
	request.wr.ud = {.ah = end.ah.get(), .remote_qpn = end.remote.qpn, .remote_qkey = end.remote.qkey};
	ibv_send_wr* bad = nullptr;
	check_posted(ibv_post_send(end.qp.get(), &request, &bad), "ibv_post_send");
	ibv_wc completions[poll_batch];
	for (const std::uint64_t deadline = now_ns() + stall_ns; poll(end.cq.get(), completions) == 0;)
		if (now_ns() > deadline) throw Failure("the send did not complete within 10 s");
	check_status(completions[0], "send");
	fmt::print("[UD Client] Message sent.\n");
}

// A UD completion says that the message has left this end; only the server knows whether it
// arrived.
int run_plain(Endpoint& end, Sender& sender, const Options& options) {
	send_one(end);
	if (options.no_answer) return 0;
	sender.post_receives();
	const RunReport report = fetch_report(end, make_stamp(plain_messages, secure_random<std::uint32_t>()));
	if (report.delivered == 0 && report.message_max < end.cell.msg)
		throw Failure(
			fmt::format("the message is lost: the server's receives hold only {} B; start it with ud_server --msg {}",
				report.message_max, end.cell.msg));
	if (report.delivered == 0) throw Failure("the server answers, but the message is lost");
	return 0;
}

int run(const Options& options) {
	const auto gid = lib::parse_gid(options.gid);
	if (!gid) throw UsageError(gid.error());
	const Address server{.qpn = parse_number(options.qpn, 0xff'ffff, "QPN (decimal or 0x...)"),
		.qkey = parse_number(options.qkey, UINT32_MAX, "Q_Key (decimal or 0x...)"),
		.gid = lib::format_gid(*gid)};

	lib::DeviceRequest wish = options.wish;
	wish.peer = *gid;
	const auto device = take(lib::open_best(wish));
	const Cell cell{
		.mode = Mode::ud, .msg = static_cast<std::uint32_t>(parse_size(options.msg).value()), .window = options.window};
	if (cell.msg > device.mtu_bytes()) throw Failure(too_large_for_ud(cell.msg, device.mtu_bytes()));
	if (options.verify && options.iters == 0) throw UsageError("--verify checks a measured run, so it needs --iters");
	if (options.iters > 0 && cell.msg < 16)
		throw UsageError("--iters needs a --msg of at least 16 bytes, because a measured message carries two stamps");
	const Shape shape{.fragment_bytes = cell.msg, .stride = (cell.msg + 63) / 64 * 64};
	Endpoint end(device, cell, shape, Side::sender, 64, server.qkey);
	end.connect(server);
	Sender sender(end);
	if (options.iters == 0) return run_plain(end, sender, options);
	sender.post_receives();
	return run_measured(end, sender, options);
}

}  // namespace
}  // namespace verbena::rcud

static int act(int argc, char** argv) {
	using namespace verbena::rcud;
	verbena::tools::list_loopback_device();
	Options options;
	verbena::tools::CommandLine app("ud_client", "Sends UD messages to ud_server.");
	app.footer(
		"Examples:\n  ud_client fd93:16d3:59b6:012e:7ec2:55ff:febd:d78e 13110 0x11111111\n"
		"  ud_client fd9316d359b6012e7ec255fffebdd78e 13110 0x11111111 --msg 1K --window 64 --iters 200000\n"
		"  ud_client fd9316d359b6012e7ec255fffebdd78e 13110 0x11111111 --iters 200000 --verify\n"
		"A measured message carries its number in its first and last 8 bytes. With --verify, at both ends, every byte "
		"is checked.\n"
		"Exit codes: 0 success, 1 failure, 2 wrong usage.");
	app.add_option("server_gid", options.gid, "GID of the server: 32 hex digits, with or without colons")->required();
	app.add_option("server_qpn", options.qpn, "QPN of the server, decimal or 0x...")->required();
	app.add_option("qkey", options.qkey, "Q_Key of the server, decimal or 0x...")->required();
	app.add_option("--msg", options.msg, "Bytes of a message")
		->capture_default_str()
		->check(verbena::tools::size_between(1, 1 << 20));
	app.add_option("--window", options.window, "Messages in flight")
		->capture_default_str()
		->check(CLI::Range(1u, 4096u));
	app.add_option("--iters", options.iters, "Messages of a measured run (0: send one message)")
		->capture_default_str()
		->check(CLI::Range(std::uint64_t{0}, std::uint64_t{1} << 40));
	app.add_flag("--no-answer", options.no_answer,
		"Without --iters: do not ask the server whether the message arrived (for a server that is not ud_server)");
	app.add_flag("--verify", options.verify,
		"With --iters: fill every byte of every message with a pattern, which ud_server --verify checks");
	verbena::tools::add_device_option(app, options.wish.device);
	verbena::tools::add_gid_option(app, options.wish.gid_index);
	if (const auto code = app.read(argc, argv)) return *code;
	setvbuf(stdout, nullptr, _IOLBF, 0);
	try {
		return run(options);
	} catch (const UsageError& error) {
		verbena::tools::print_error("ud_client: {}\n", error.what());
		return 2;
	}
}

int main(int argc, char** argv) { return verbena::tools::run_program("ud_client", act, argc, argv); }
