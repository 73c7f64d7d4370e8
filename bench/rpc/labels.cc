// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/labels.h"

#include <fmt/format.h>

#include "base/sizes.h"
#include "bench/rpc/peer.h"

namespace verbena::rpcbench {
namespace {

constexpr Behaviour behaviours[] = {
	Behaviour::inline_data, Behaviour::coalescing, Behaviour::send_queue, Behaviour::pool, Behaviour::connection_pool};

}  // namespace

std::span<const Behaviour> all_behaviours() { return behaviours; }

std::string_view name_of(Behaviour behaviour) {
	switch (behaviour) {
		case Behaviour::none: return "";
		case Behaviour::inline_data: return "inline";
		case Behaviour::coalescing: return "coalescing";
		case Behaviour::send_queue: return "send-queue";
		case Behaviour::pool: return "pool";
		case Behaviour::connection_pool: return "connection-pool";
	}
	return "";
}

std::string_view name_of(Mode mode) { return mode == Mode::sink ? "sink" : "echo"; }

bool is_of_rdma(Behaviour behaviour) {
	return behaviour == Behaviour::inline_data || behaviour == Behaviour::send_queue || behaviour == Behaviour::pool;
}

std::string size_text(std::uint64_t bytes) {
	if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{}M", bytes >> 20);
	if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{}K", bytes >> 10);
	return fmt::format("{}B", bytes);
}

std::optional<std::uint64_t> bytes_of(std::string_view request_size) {
	const auto size = parse_size(request_size.substr(0, request_size.find('B')));
	if (!size || *size == 0 || size_text(*size) != request_size) return {};
	return *size;
}

bench::Json columns_of(const CellOptions& cell) {
	return {{"request_size", size_text(cell.size)}, {"concurrency", cell.concurrency}, {"system", name_of(cell.system)},
		{"transport", cell.rdma ? "rdma" : "tcp"}, {"mode", name_of(cell.mode)}, {"ablation", name_of(cell.ablation)},
		{"without", cell.without ? name_of(cell.ablation) : ""},
		{"recv_mode",
			!cell.rdma                ? ""
				: cell.per_connection ? "per_connection"
									  : "srq"},
		{"memory",
			!cell.rdma            ? ""
				: cell.registered ? "registered"
								  : "user"},
		{"connections", cell.connections}};
}

std::string title(const bench::Json& row) {
	const auto word = [&](const char* column) { return bench::word_of(row, column); };
	std::string text = fmt::format("{} x {}", word("request_size"), word("concurrency"));
	if (const std::string transport = word("transport"); !transport.empty()) text += " over " + transport;
	if (const std::string system = word("system"); !system.empty() && system != "verbena") text += " by " + system;
	if (const std::string mode = word("mode"); !mode.empty() && mode != "sink") text += ", " + mode;
	if (const std::string receiving = word("recv_mode"); !receiving.empty() && receiving != "srq")
		text += ", " + receiving;
	if (const std::string memory = word("memory"); !memory.empty() && memory != "user")
		text += ", " + memory + " memory";
	if (const std::string connections = word("connections"); !connections.empty() && connections != "1")
		text += fmt::format(", {} connections", connections);
	if (const std::string without = word("without"); !without.empty()) text += ", without " + without;
	else if (const std::string ablation = word("ablation"); !ablation.empty()) text += ", with " + ablation;
	return text;
}

}  // namespace verbena::rpcbench
