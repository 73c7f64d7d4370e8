// SPDX-License-Identifier: Apache-2.0
// The program ud_server: receives UD messages and reports each run. It prints the QPN, Q_Key and
// GID that ud_client takes as arguments.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>

#include "base/sizes.h"
#include "bench/rcud/datagram_run.h"
#include "bench/rcud/receiver.h"
#include "tools/command_line.h"
#include "tools/device_options.h"
#include "tools/loopback_device.h"
#include "tools/option_values.h"
#include "tools/program.h"

namespace verbena::rcud {
namespace {

volatile std::sig_atomic_t stopping = 0;

struct Options {
	std::string msg = "64";
	std::uint32_t window = 64;
	std::optional<std::uint32_t> receive_depth;
	bool verify = false;
	lib::DeviceRequest wish;
};

void print_report(const RunReport& report, std::uint64_t posted) {
	const Delivery rate{.counted = report.counted, .counted_ns = report.counted_ns};
	fmt::print(
		"[UD Server] Run {}: {} delivered, {} lost of {}, {} duplicated, {} reordered, {} damaged, {:.3f} Mops\n",
		run_of(report.question), report.delivered, posted - std::min(posted, report.delivered), posted,
		report.duplicated, report.reordered, report.corrupt, rate.mops());
	std::fflush(stdout);
}

// Sends the report of a run to the client that asked for it; the question's GRH and completion hold
// the address of its sender.
//
// Owns: the buffer that answers are sent from; one answer is under way at a time.
class Answers {
public:
	explicit Answers(Endpoint& end)
		: end_(end),
		  buffer_(4096),
		  memory_(
			  take(lib::make_memory_region(end.device.domain.get(), buffer_.data(), 4096, IBV_ACCESS_LOCAL_WRITE))) {}

	void send(const ibv_wc& question, std::span<const std::byte> message, const RunReport& report) {
		auto* grh = reinterpret_cast<ibv_grh*>(const_cast<std::byte*>(message.data()) - 40);
		ah_.reset(ibv_create_ah_from_wc(
			end_.device.domain.get(), const_cast<ibv_wc*>(&question), grh, end_.device.choice.port));
		if (!ah_) throw Failure(lib::failure("ibv_create_ah_from_wc", errno));
		std::memcpy(buffer_.data(), &report, sizeof report);
		ibv_sge piece{
			.addr = reinterpret_cast<std::uint64_t>(buffer_.data()), .length = sizeof report, .lkey = memory_->lkey};
		ibv_send_wr request{};
		request.sg_list = &piece;
		request.num_sge = 1;
		request.opcode = IBV_WR_SEND_WITH_IMM;
		request.send_flags = IBV_SEND_SIGNALED;
		request.imm_data = htonl(end_of_run_imm);
		request.wr.ud = {.ah = ah_.get(), .remote_qpn = question.src_qp, .remote_qkey = end_.qkey};
		ibv_send_wr* bad = nullptr;
		check_posted(ibv_post_send(end_.qp.get(), &request, &bad), "ibv_post_send");
	}

private:
	Endpoint& end_;
	Buffer buffer_;
	lib::MemoryRegion memory_;
	lib::AddressHandle ah_;  // the latest answer's; it must live until that answer has been sent
};

int run(const Options& options) {
	const auto device = take(lib::open_best(options.wish));
	const Cell cell{
		.mode = Mode::ud, .msg = static_cast<std::uint32_t>(parse_size(options.msg).value()), .window = options.window};
	if (cell.msg > device.mtu_bytes()) throw Failure(too_large_for_ud(cell.msg, device.mtu_bytes()));
	Shape shape = take(shape_of(cell, {}, {.mtu = device.mtu_bytes()}));
	shape.receive_depth = options.receive_depth.value_or(options.window + 10);

	Endpoint end(device, cell, shape, Side::receiver, 0);
	Receiver receiver(end, 0, false);
	Answers answers(end);
	receiver.post_receives();
	fmt::print("[UD Server] Ready to receive {} concurrent messages.\n  QPN  = {}\n  QKey = {:#010x}\n  GID  = {}\n",
		shape.receive_depth, end.qp->qp_num, end.qkey, lib::format_gid(device.choice.gid));
	std::fflush(stdout);

	OpenRun open(cell.msg, options.verify ? Pattern(seed_for(end.qp->qp_num, end.qkey)) : Pattern());
	std::uint64_t answered = 0;
	bool reported = true;  // whether the latest run has been printed; there is none yet
	const auto take_message = [&](const ibv_wc& completion, std::span<const std::byte> message) {
		if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0 && ntohl(completion.imm_data) == end_of_run_imm &&
			message.size() >= 8) {
			const RunReport report = open.report(load_stamp(message.data()));
			answers.send(completion, message, report);
			if (run_of(report.question) == plain_messages) return;
			if (std::exchange(answered, report.question) != report.question)
				print_report(report, sequence_of(report.question));
			reported |= run_of(report.question) == run_of(open.question());
			return;
		}
		const std::uint64_t before = open.plain;
		if (open.accept(message, now_ns())) reported = false;
		if (open.plain != before && open.plain <= 10) {
			fmt::print("[UD Server] Message of {} bytes from QPN {}.\n", message.size(), completion.src_qp);
			std::fflush(stdout);
		}
	};
	receiver.serve(take_message, [] { return stopping == 0; });

	if (!reported) print_report(open.report(open.question()), sequence_of(open.question()));
	fmt::print("[UD Server] {} plain messages.\n", open.plain);
	return 0;
}

}  // namespace
}  // namespace verbena::rcud

static int act(int argc, char** argv) {
	using namespace verbena::rcud;
	verbena::tools::list_loopback_device();
	Options options;
	verbena::tools::CommandLine app("ud_server", "Receives UD messages and reports each run.");
	app.footer(
		"Examples:\n  ud_server                         messages of 64 bytes, 64 + 10 receives\n"
		"  ud_server --msg 4K --recv-depth 1000\n"
		"Then start ud_client GID QPN QKEY on this or another host. SIGINT or SIGTERM ends the server.\n"
		"A message of a run counts if its first and last 8 bytes hold the same number; with --verify, at both ends, if "
		"every byte is what was sent.\nExit codes: 0 success, 1 failure, 2 wrong usage.");
	app.add_option("--msg", options.msg, "Bytes of the largest message")
		->capture_default_str()
		->check(verbena::tools::size_between(1, 1 << 20));
	app.add_option("--window", options.window, "Messages that the client has in flight")
		->capture_default_str()
		->check(CLI::Range(1u, 4096u));
	app.add_option("--recv-depth", options.receive_depth, "Receives to post (default: window + 10)")
		->check(CLI::Range(1u, 16'384u));
	app.add_flag("--verify", options.verify, "Check every byte of the messages of ud_client --verify");
	verbena::tools::add_device_option(app, options.wish.device);
	verbena::tools::add_gid_option(app, options.wish.gid_index);
	if (const auto code = app.read(argc, argv)) return *code;
	struct sigaction stop{};
	stop.sa_handler = [](int) { stopping = 1; };
	sigaction(SIGINT, &stop, nullptr);
	sigaction(SIGTERM, &stop, nullptr);
	return run(options);
}

int main(int argc, char** argv) { return verbena::tools::run_program("ud_server", act, argc, argv); }
