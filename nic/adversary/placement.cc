// SPDX-License-Identifier: Apache-2.0
#include "nic/adversary/placement.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <ranges>

#include "base/prefetch.h"

namespace verbena::adversary {
namespace {

constexpr std::size_t page_size = 4096;

// The part of a unit that lies in its line `index`.
struct Extent {
	std::size_t begin, end;
};
Extent extent_of(const std::byte* to, std::size_t n, std::size_t index) {
	const std::size_t first = cache_line - reinterpret_cast<std::uintptr_t>(to) % cache_line;
	const std::size_t begin = index == 0 ? 0 : first + (index - 1) * cache_line;
	return {begin, std::min(n, first + index * cache_line)};
}

std::size_t lines_of(const std::byte* to, std::size_t n) {
	return (reinterpret_cast<std::uintptr_t>(to) % cache_line + n + cache_line - 1) / cache_line;
}

}  // namespace

bool Placement::must_precede(const Unit& earlier, std::uint64_t message, const std::byte* to, std::size_t n) const {
	if (earlier.atomic) return true;
	const bool overlaps = earlier.to < to + n && to < earlier.to + earlier.bytes.size();
	switch (spec_.model) {
		case Model::tso: return earlier.message != message || overlaps;
		case Model::iba: return overlaps;
		default: return false;
	}
}

// Adding 0 to a word of each page changes nothing and needs the right to write.
bool Placement::writable(std::byte* to, std::size_t n) const {
	const auto begin = reinterpret_cast<std::uintptr_t>(to);
	for (std::uintptr_t at = begin; at < begin + n; at = (at / page_size + 1) * page_size) {
		std::uint64_t ignored;
		if (!plain_.fetch_add(reinterpret_cast<std::uint64_t*>(at & ~std::uintptr_t{7}), 0, &ignored)) return false;
	}
	return true;
}

void Placement::store(Unit& unit, std::size_t lines_left) {
	while (unit.lines.size() > lines_left) {
		const auto [begin, end] = extent_of(unit.to, unit.bytes.size(), unit.lines.back());
		static_cast<void>(plain_.copy(unit.to + begin, &unit.bytes[begin], end - begin));
		unit.lines.pop_back();
	}
}

void Placement::store_with_predecessors(Lane& lane, std::size_t index) {
	Unit& unit = lane[index];
	for (std::size_t i = 0; i < index; ++i)
		if (!lane[i].lines.empty() && must_precede(lane[i], unit.message, unit.to, unit.bytes.size()))
			store_with_predecessors(lane, i);
	store(unit, 0);
}

void Placement::remove_stored(Lane& lane) {
	std::erase_if(lane, [this](const Unit& unit) {
		if (!unit.lines.empty()) return false;
		bytes_ -= unit.bytes.size();
		return true;
	});
}

bool Placement::place(const Source& source, std::byte* to, const std::byte* from, std::size_t n, const Moment& now) {
	const auto found = lanes_.find(key_of(source.qpn, source.side));
	const auto precedes = [&](const Unit& unit) { return must_precede(unit, source.message, to, n); };
	const bool waits = found != lanes_.end() && std::ranges::any_of(found->second, precedes);
	const Kind kind = source.side == Side::responder ? Kind::placement : Kind::reads;
	const std::uint64_t bits = draw(spec_.seed.value_or(0), kind, source.identity);
	const bool prompt = !spec_.has(kind) || bits >> 63;
	if (prompt && !waits) return plain_.copy(to, from, n);
	if (bytes_ + n > bytes_max) {
		drain(source.qpn, source.side);
		return plain_.copy(to, from, n);
	}
	if (!writable(to, n)) return false;

	Lane& lane = found != lanes_.end() ? found->second : lanes_[key_of(source.qpn, source.side)];
	Unit unit{.to = to, .bytes{from, from + n}, .message = source.message, .due = now.after(delay_of(bits))};
	unit.lines.resize(lines_of(to, n));
	std::iota(unit.lines.begin(), unit.lines.end(), std::uint16_t{0});
	Random random(bits);
	std::shuffle(unit.lines.begin(), unit.lines.end(), random);
	if (!waits) {
		store(unit, 1 + random.below(unit.lines.size()));
	} else {
		// Not before the units for which it waits, or those would come too early.
		const Moment& last = lane.back().due;
		if (prompt) unit.due = last;
		unit.due = {std::max(unit.due.observations, last.observations), std::max(unit.due.time, last.time)};
	}
	bytes_ += n;
	lane.push_back(std::move(unit));
	return true;
}

void Placement::store_later(const Source& source, std::uint64_t* to, std::uint64_t value) {
	drain(source.qpn, source.side);
	Unit unit{
		.to = reinterpret_cast<std::byte*>(to), .lines{0}, .message = source.message, .due = no_moment, .atomic = true};
	unit.bytes.resize(sizeof value);
	std::memcpy(unit.bytes.data(), &value, sizeof value);
	bytes_ += sizeof value;
	lanes_[key_of(source.qpn, source.side)].push_back(std::move(unit));
}

void Placement::drain(std::uint32_t qpn, Side side) {
	const auto found = lanes_.find(key_of(qpn, side));
	if (found == lanes_.end()) return;
	for (std::size_t i = 0; i < found->second.size(); ++i) store_with_predecessors(found->second, i);
	remove_stored(found->second);
	lanes_.erase(found);
}

void Placement::drain_all() {
	while (!lanes_.empty()) {
		const std::uint64_t key = lanes_.begin()->first;
		drain(static_cast<std::uint32_t>(key >> 1), static_cast<Side>(key & 1));
	}
}

void Placement::drain_atomics(const std::uint64_t* word) {
	const auto* const at = reinterpret_cast<const std::byte*>(word);
	const auto holds = [at](const auto& entry) {
		return std::ranges::any_of(entry.second, [at](const Unit& unit) { return unit.atomic && unit.to == at; });
	};
	const auto found = std::ranges::find_if(lanes_, holds);
	if (found != lanes_.end())
		drain(static_cast<std::uint32_t>(found->first >> 1), static_cast<Side>(found->first & 1));
}

void Placement::advance(const Moment& now) {
	for (auto entry = lanes_.begin(); entry != lanes_.end();) {
		Lane& lane = entry->second;
		for (std::size_t i = 0; i < lane.size(); ++i)
			if (lane[i].due.reached(now)) store_with_predecessors(lane, i);
		remove_stored(lane);
		entry = lane.empty() ? lanes_.erase(entry) : std::next(entry);
	}
}

Moment Placement::due() const {
	Moment first = no_moment;
	for (const Lane& lane : std::views::values(lanes_))
		for (const Unit& unit : lane)
			first = {std::min(first.observations, unit.due.observations), std::min(first.time, unit.due.time)};
	return first;
}

}  // namespace verbena::adversary
