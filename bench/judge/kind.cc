// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace verbena::bench {
namespace {

// In small letters; empty if the environment does not say it.
std::string said_of(const Environment& environment, std::string_view name) {
	for (const auto& [key, value] : environment)
		if (lowered(key) == name) return lowered(value);
	return {};
}

bool is_software(std::string_view device) {
	const std::string name = lowered(device);
	return name.starts_with("vb_") || name.starts_with("rxe") || name.starts_with("siw");
}

}  // namespace

std::string_view software_device_in(std::string_view text) {
	constexpr std::string_view between = " \t,;:/()[]\"'";
	while (!text.empty()) {
		text.remove_prefix(std::min(text.size(), text.find_first_not_of(between)));
		const std::string_view device = text.substr(0, text.find_first_of(between));
		if (is_software(device)) return device;
		text.remove_prefix(device.size());
	}
	return {};
}

bool is_called_hardware(const Environment& environment) { return said_of(environment, "kind") == "hardware"; }

std::expected<std::string_view, std::string> kind_of(const Table& table) {
	const std::string said = said_of(table.environment, "kind"), of_peer = said_of(table.environment, "peer_kind"),
					  common = said_of(table.environment, "device"), peer = said_of(table.environment, "peer_device");
	for (const auto& [name, value] : {std::pair("kind", said), std::pair("peer_kind", of_peer)})
		if (!value.empty() && value != "hardware" && value != "software")
			return std::unexpected(
				fmt::format("{} '{}' in the environment is neither hardware nor software", name, value));
	const auto any_row = [&](auto is_so) {
		return std::ranges::any_of(table.rows, [&](const Json& row) { return is_so(word_of(row, "device")); });
	};
	if (said == "hardware" && common.empty() && !any_row([](const std::string& own) { return !own.empty(); }))
		return std::unexpected("the environment says hardware, but the table names no device");
	const bool names_software = !software_device_in(common).empty() || !software_device_in(peer).empty() ||
		any_row([](const std::string& own) { return !software_device_in(own).empty(); });
	if (names_software || said == "software" || of_peer == "software") return "software";
	return said.empty() ? "unknown" : "hardware";
}

void examine_devices(const Table& table, std::span<Findings> findings) {
	const std::string of_peer = said_of(table.environment, "peer_device");
	const std::string_view peer = software_device_in(of_peer);
	if (!peer.empty() && said_of(table.environment, "peer_kind") == "hardware")
		for (Findings& each : findings)
			each.invalid(fmt::format("{} is a software device, but the environment's peer_kind says hardware", peer));
	if (!is_called_hardware(table.environment)) return;
	const std::string_view common = software_device_in(value_of(table.environment, "device"));
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		const std::string text = word_of(table.rows[i], "device");
		const std::string_view own = software_device_in(text), device = own.empty() ? common : own;
		if (!device.empty())
			findings[i].invalid(fmt::format("{} is a software device, but the environment says hardware", device));
	}
}

}  // namespace verbena::bench
