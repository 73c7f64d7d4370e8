// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/connected_run.h"

#include <fmt/format.h>

namespace verbena::rcud {
namespace {

constexpr std::uint64_t report_id = UINT64_MAX;

// Polls until the report's completion, and returns it.
ibv_wc await_report(Endpoint& end, const char* what, const std::function<bool()>& go_on) {
	ibv_wc completions[poll_batch];
	const std::uint64_t deadline = now_ns() + stall_ns;
	while (true) {
		// Asked before polling: what arrived before the other process ended is still taken.
		const bool ended = !go_on();
		const int n = poll(end.cq.get(), completions);
		for (int i = 0; i < n; ++i) {
			check_status(completions[i], what);
			if (completions[i].wr_id == report_id) return completions[i];
		}
		if (n > 0) continue;
		if (ended) throw Failure(std::string(what) + ": the other process ended");
		if (now_ns() > deadline) throw Failure(std::string(what) + ": no completion within 10 s");
	}
}

}  // namespace

std::string refusal_of(const Cell& cell) {
	if (std::uint64_t{cell.msg} * cell.window <= connected_window_max && cell.msg <= 1u << 20) return "";
	return fmt::format(
		"a window of {} messages of {} B is too large: at most {} MiB in flight, in messages of at most 1 MiB",
		cell.window, cell.msg, connected_window_max >> 20);
}

void send_report(Endpoint& end, const RunReport& report, const std::function<bool()>& go_on) {
	// The run is over, so no message arrives in this receive buffer any more.
	std::memcpy(end.receive_at(0), &report, sizeof report);
	ibv_sge piece{
		.addr = reinterpret_cast<std::uint64_t>(end.receive_at(0)), .length = sizeof report, .lkey = end.memory->lkey};
	ibv_send_wr request{};
	request.wr_id = report_id;
	request.sg_list = &piece;
	request.num_sge = 1;
	request.opcode = IBV_WR_SEND;
	request.send_flags = IBV_SEND_SIGNALED;
	ibv_send_wr* bad = nullptr;
	check_posted(ibv_post_send(end.qp.get(), &request, &bad), "ibv_post_send");
	await_report(end, "report", go_on);
}

RunReport receive_report(Endpoint& end, const std::function<bool()>& go_on) {
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(end.receive_at(0)),
		.length = sizeof(RunReport),
		.lkey = end.memory->lkey};
	ibv_recv_wr request{.wr_id = report_id, .next = nullptr, .sg_list = &piece, .num_sge = 1};
	ibv_recv_wr* bad = nullptr;
	check_posted(ibv_post_recv(end.qp.get(), &request, &bad), "ibv_post_recv");
	const ibv_wc completion = await_report(end, "report", go_on);
	if (completion.byte_len != sizeof(RunReport)) throw Failure("the server's report has the wrong length");
	RunReport report;
	std::memcpy(&report, end.receive_at(0), sizeof report);
	return report;
}

}  // namespace verbena::rcud
