// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/requests.h"

#include <algorithm>

#include "bench/rcud/fan_in.h"

namespace verbena::rcud {
namespace {

// Numbers of queue pairs in one message, which has at most 64 KiB.
constexpr std::size_t qpns_max = 4096;

}  // namespace

void check_request(const Cell& cell, const Shape& shape) {
	const std::uint64_t receives = std::uint64_t{shape.receive_depth} * (cell.msg + 64);
	const std::uint64_t ring = std::uint64_t{shape.ring_slots} * shape.stride;
	const bool good = cell.mode <= Mode::ud_segmented && cell.op <= Op::read &&
		cell.window_mode <= WindowMode::credit && cell.window >= 1 && cell.msg >= 1 && shape.fragments >= 1 &&
		shape.fragments <= 64 && shape.receive_depth >= 1 && shape.stride >= cell.msg && shape.stride % 64 == 0 &&
		shape.credit_every >= 1 && shape.signal_every >= 1 && shape.post_list >= 1 &&
		(cell.op == Op::send || shape.ring_slots >= 1) &&
		std::uint64_t{shape.fragment_bytes} * shape.fragments >= cell.msg && receives <= memory_max &&
		ring <= memory_max && std::uint64_t{cell.window} * cell.msg <= memory_max &&
		(cell.qps == 0 || is_fan_in_in_range(cell, shape));
	if (!good) throw Failure("the client asked for a cell whose numbers are out of range");
}

void send_qpns(bench::Control& control, const std::vector<std::uint32_t>& qpns) {
	for (std::size_t from = 0; from < qpns.size(); from += qpns_max) {
		const auto begin = qpns.begin() + static_cast<std::ptrdiff_t>(from);
		const auto count = static_cast<std::ptrdiff_t>(std::min(qpns_max, qpns.size() - from));
		control.send({{"type", "qpns"}, {"list", std::vector<std::uint32_t>(begin, begin + count)}});
	}
}

std::vector<std::uint32_t> receive_qpns(std::size_t count, const std::function<bench::Message()>& next) {
	std::vector<std::uint32_t> qpns;
	while (qpns.size() < count) {
		const bench::Message message = next();
		if (message["type"] != "qpns") throw PeerLost(bench::wrong_answer(message, "qpns"));
		const auto list = field<std::vector<std::uint32_t>>(message, "list");
		if (list.empty() || list.size() > count - qpns.size()) throw PeerLost(bench::bad_field(message, "list"));
		qpns.insert(qpns.end(), list.begin(), list.end());
	}
	return qpns;
}

}  // namespace verbena::rcud
