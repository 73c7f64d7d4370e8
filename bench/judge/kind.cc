// SPDX-License-Identifier: Apache-2.0
#include "bench/judge/kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace verbena::bench {
namespace {

bool is_software(std::string_view device) {
	const std::string name = lowered(device);
	return name.starts_with("vb_") || name.starts_with("rxe") || name.starts_with("siw");
}

// The kernel's names of devices have no other characters that matter here.
bool is_of_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// A letter that only looks like one of ASCII, or one that cannot be seen, makes another name.
bool is_readable(std::string_view device) {
	return std::ranges::all_of(device, [](char c) { return c >= ' ' && c <= '~'; });
}

// Whether a GID, as our programs write it, is an address at which a host reaches itself: that of
// 127.0.0.0/8 or ::1.
bool is_loopback(std::string gid) {
	std::erase(gid, ':');
	return gid.size() == 32 && (gid.starts_with("00000000000000000000ffff7f") || gid == std::string(31, '0') + '1');
}

// Why a device of this name is no hardware; empty if nothing speaks against it.
std::string objection_to(std::string_view device) {
	if (!is_readable(device)) return fmt::format("'{}' is no name of a device", device);
	const std::string_view software = software_device_in(device);
	return software.empty() ? "" : fmt::format("{} is a software device", software);
}

std::string_view stated(const Environment& environment, std::string_view name) {
	for (const auto& [key, value] : environment)
		if (lowered(key) == name) return value;
	return {};
}

}  // namespace

std::string said_of(const Environment& environment, std::string_view name) {
	return lowered(stated(environment, name));
}

std::string_view software_device_in(std::string_view text) {
	while (!text.empty()) {
		text.remove_prefix(static_cast<std::size_t>(std::ranges::find_if(text, is_of_name) - text.begin()));
		const std::string_view device =
			text.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_of_name) - text.begin()));
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
	const auto all = [&](const std::string& reason) {
		for (Findings& each : findings) each.invalid(reason);
	};
	if (said_of(table.environment, "peer_kind") == "hardware")
		if (const std::string why = objection_to(stated(table.environment, "peer_device")); !why.empty())
			all(why + ", but the environment's peer_kind says hardware");
	if (!is_called_hardware(table.environment)) return;
	if (const std::string gid = said_of(table.environment, "gid"); is_loopback(gid))
		all(fmt::format("the GID {} is the host's own, but the environment says hardware", gid));
	const std::string common = objection_to(stated(table.environment, "device"));
	for (std::size_t i = 0; i < table.rows.size(); ++i) {
		const std::string own = objection_to(word_of(table.rows[i], "device")), &why = own.empty() ? common : own;
		if (!why.empty()) findings[i].invalid(why + ", but the environment says hardware");
	}
}

}  // namespace verbena::bench
