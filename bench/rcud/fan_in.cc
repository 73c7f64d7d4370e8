// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/fan_in.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::rcud {
namespace {

constexpr std::uint32_t qps_max = 1u << 16, senders_max = 64;

std::uint32_t stride_of(std::uint32_t msg) { return (msg + 63) / 64 * 64; }

std::string refusal_of_numbers(const Cell& cell, const Limits& limits) {
	if (cell.op != Op::send) return "queue pairs in turn (--qps) are measured by SEND alone";
	if (cell.msg < 8) return fmt::format("msg {} < 8: no room for the stamp that names the queue pair", cell.msg);
	if (cell.qps > limits.qps_max)
		return fmt::format("{} queue pairs > {}, what the device has", cell.qps, limits.qps_max);
	if (cell.qps % cell.senders != 0)
		return fmt::format("{} queue pairs cannot be divided equally among {} senders", cell.qps, cell.senders);
	if (cell.window < cell.senders) return fmt::format("window {} < {} senders", cell.window, cell.senders);
	if (std::uint64_t{cell.window} * 2 > limits.queue_depth_max)
		return fmt::format("window {} > {}, half of the device's queue depth", cell.window, limits.queue_depth_max / 2);
	const std::uint64_t bytes = std::uint64_t{cell.qps} * window_of_queue_pair(cell) * stride_of(cell.msg);
	if (bytes > memory_max)
		return fmt::format(
			"the buffers of {} queue pairs need {} GiB, more than {}", cell.qps, bytes >> 30, memory_max >> 30);
	return "";
}

}  // namespace

std::expected<Shape, std::string> fan_in_shape_of(const Cell& cell, const Settings& settings, const Limits& limits) {
	if (std::string refusal = refusal_of_numbers(cell, limits); !refusal.empty())
		return std::unexpected(std::move(refusal));
	// Both transports have the receives that UD needs.
	Cell as_datagrams = cell;
	as_datagrams.mode = Mode::ud;
	as_datagrams.qps = 0;
	auto shape = shape_of(as_datagrams, settings, limits);
	if (!shape) return shape;
	shape->credit_every = std::max(1u, window_of_sender(cell) / 4);
	// Each queue pair has its turn, so no two requests can be one list.
	shape->post_list = shape->signal_every = 1;
	return shape;
}

bool is_fan_in_in_range(const Cell& cell, const Shape& shape) {
	return cell.op == Op::send && cell.mode <= Mode::ud && cell.msg >= 8 && cell.qps <= qps_max && cell.senders >= 1 &&
		cell.senders <= senders_max && cell.qps % cell.senders == 0 && cell.window >= cell.senders &&
		shape.fragments == 1;
}

}  // namespace verbena::rcud
