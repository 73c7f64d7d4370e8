// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/cell.h"

#include <fmt/format.h>

#include <algorithm>

namespace verbena::rcud {
namespace {

// Bytes of the receive buffers that UD with a local window gets; more would only displace caches.
constexpr std::uint64_t receive_memory_max = 8u << 20;

std::uint32_t round_up_to_line(std::uint64_t bytes) {
	return static_cast<std::uint32_t>((bytes + 63) & ~std::uint64_t{63});
}

// RC has backpressure, and credits bound what is in flight: four windows of receives are enough. UD
// with a local window drops a message that finds no receive, so the receiver posts as many receives
// as memory and device allow.
std::uint32_t choose_receive_depth(
	const Cell& cell, const Settings& settings, const Limits& limits, std::uint32_t fragments) {
	const std::uint64_t window = std::uint64_t{cell.window} * fragments;
	std::uint64_t depth = std::max<std::uint64_t>(4 * window, 64);
	if (cell.mode != Mode::rc && cell.window_mode == WindowMode::local)
		depth = std::max(depth, std::min<std::uint64_t>(receive_memory_max / (cell.msg / fragments + 64), 4096));
	if (settings.receive_depth > 0) depth = settings.receive_depth;
	return static_cast<std::uint32_t>(std::min<std::uint64_t>(depth, limits.queue_depth_max));
}

}  // namespace

std::expected<Shape, std::string> shape_of(const Cell& cell, const Settings& settings, const Limits& limits) {
	if (cell.mode != Mode::rc && cell.op != Op::send)
		return std::unexpected(fmt::format("UD has no RDMA {}", name_of(cell.op)));
	if (cell.msg < 8 && cell.mode != Mode::rc)
		return std::unexpected(fmt::format("msg {} < 8: no room for the stamp by which UD is counted", cell.msg));
	if (cell.msg < 8 && cell.op != Op::send)
		return std::unexpected(
			fmt::format("msg {} < 8: no room for the stamp by which a {} is checked", cell.msg, name_of(cell.op)));

	if (settings.verify && cell.mode != Mode::rc && cell.msg < 16)
		return std::unexpected(fmt::format("msg {} < 16: no room to check the stamp by which UD is counted", cell.msg));

	Shape shape{.fragment_bytes = cell.msg};
	if (cell.mode == Mode::ud_segmented) {
		shape.fragment_bytes = limits.mtu - fragment_header_bytes;
		shape.fragments = (cell.msg + shape.fragment_bytes - 1) / shape.fragment_bytes;
		if (shape.fragments > 64)
			return std::unexpected(fmt::format("msg {} needs {} datagrams, more than 64", cell.msg, shape.fragments));
	}
	if (std::uint64_t{cell.window} * shape.fragments * 2 > limits.queue_depth_max)
		return std::unexpected(fmt::format("window {} > {}, half of the device's queue depth", cell.window,
			limits.queue_depth_max / 2 / shape.fragments));

	shape.stride = round_up_to_line(cell.msg);
	shape.receive_depth = cell.op == Op::send ? choose_receive_depth(cell, settings, limits, shape.fragments) : 16;
	// With a local window, WRITEs could overtake a target that has not read the ring yet. The ring
	// is several windows long, and credits keep the sender within it.
	if (cell.op == Op::write)
		shape.ring_slots = cell.window_mode == WindowMode::credit ? cell.window : std::max(4 * cell.window, 64u);
	if (cell.op == Op::read) shape.ring_slots = cell.window;
	const bool ring_bounds = cell.op == Op::write && cell.window_mode == WindowMode::local;
	shape.credit_every = std::max(1u, (ring_bounds ? shape.ring_slots : cell.window) / 4);

	// A list must fit into the window beside messages that are finished without the sender's
	// knowing: up to signal_every - 1 without a completion, or credit_every - 1 without a credit.
	shape.signal_every = std::clamp(settings.signal_every, 1u, std::max(1u, cell.window / 2));
	const std::uint32_t room = cell.window -
		std::max(shape.signal_every - 1, cell.window_mode == WindowMode::credit ? shape.credit_every - 1 : 0);
	shape.post_list = std::clamp(settings.post_list, 1u, room);
	return shape;
}

std::string_view name_of(Mode mode) { return mode == Mode::rc ? "RC" : mode == Mode::ud ? "UD" : "UD-seg"; }
std::string_view name_of(Op op) { return op == Op::send ? "send" : op == Op::write ? "write" : "read"; }
std::string_view name_of(WindowMode window_mode) { return window_mode == WindowMode::local ? "local" : "credit"; }

}  // namespace verbena::rcud
