// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/device_choice.h"

#include <algorithm>

#include "base/sizes.h"

namespace verbena::engine {

namespace {

std::string_view trimmed(std::string_view text) {
	constexpr const char* blanks = " \t";
	const std::size_t first = text.find_first_not_of(blanks);
	if (first == std::string_view::npos) return {};
	return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

struct Wishes {
	std::vector<std::string_view> named, added, left_out;

	explicit Wishes(std::string_view text) {
		for (std::string_view item : split(text)) {
			item = trimmed(item);
			if (item.starts_with('-')) left_out.push_back(item.substr(1));
			else if (item.starts_with('+')) added.push_back(item.substr(1));
			else if (!item.empty()) named.push_back(item);
		}
	}
};

}  // namespace

std::vector<std::size_t> choose_devices(std::string_view wanted, std::span<const DeviceCandidate> candidates) {
	const Wishes wishes(wanted);
	const auto left_out = [&](const DeviceCandidate& each) {
		return std::ranges::find(wishes.left_out, each.name) != wishes.left_out.end();
	};
	std::vector<std::size_t> chosen;
	const auto add = [&](std::size_t position) {
		if (!left_out(candidates[position]) && std::ranges::find(chosen, position) == chosen.end())
			chosen.push_back(position);
	};
	const auto add_usual = [&](bool loopback) {
		for (std::size_t i = 0; i < candidates.size(); ++i)
			if (candidates[i].is_usual && candidates[i].is_loopback == loopback) add(i);
	};
	const auto add_named = [&](const std::vector<std::string_view>& names) {
		for (const std::string_view name : names) {
			const auto at = std::ranges::find(candidates, name, &DeviceCandidate::name);
			if (at != candidates.end()) add(static_cast<std::size_t>(at - candidates.begin()));
		}
	};

	add_named(wishes.named);
	if (wishes.named.empty()) {
		add_usual(false);
		if (std::ranges::none_of(chosen, [&](std::size_t position) { return candidates[position].works; }))
			add_usual(true);
	}
	add_named(wishes.added);
	return chosen;
}

std::vector<std::string> unknown_devices(std::string_view wanted, std::span<const DeviceCandidate> candidates) {
	const Wishes wishes(wanted);
	std::vector<std::string> unknown;
	for (const auto* names : {&wishes.named, &wishes.added, &wishes.left_out})
		for (const std::string_view name : *names)
			if (std::ranges::find(candidates, name, &DeviceCandidate::name) == candidates.end())
				unknown.emplace_back(name);
	return unknown;
}

}  // namespace verbena::engine
