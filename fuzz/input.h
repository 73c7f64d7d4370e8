// SPDX-License-Identifier: Apache-2.0
// A fuzzer's input, read as a sequence of decisions.
//
// Lifetime: the bytes belong to libFuzzer and are valid until LLVMFuzzerTestOneInput returns.
// Invariants: after the end of the input every decision is 0, so each run ends.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace verbena::fuzz {

class Input {
public:
	Input(const std::uint8_t* data, std::size_t size) : rest_(std::as_bytes(std::span(data, size))) {}

	bool ended() const { return rest_.empty(); }

	// A value of the next bytes; bytes beyond the end are 0.
	template <class T>
		requires std::is_trivially_copyable_v<T>
	T take() {
		T value{};
		const std::span<const std::byte> from = bytes(sizeof value);
		if (!from.empty()) std::memcpy(&value, from.data(), from.size());
		return value;
	}
	std::uint8_t byte() { return take<std::uint8_t>(); }
	bool flag() { return byte() & 1; }
	// A number from 0 to bound - 1. `bound` is at most 256.
	std::uint32_t below(std::uint32_t bound) { return byte() % bound; }
	template <class T, std::size_t n> const T& one_of(const T (&list)[n]) { return list[below(n)]; }

	// The next `count` bytes, or fewer at the end.
	std::span<const std::byte> bytes(std::size_t count) {
		const auto taken = rest_.first(std::min(count, rest_.size()));
		rest_ = rest_.subspan(taken.size());
		return taken;
	}
	std::span<const std::byte> rest() { return bytes(rest_.size()); }

private:
	std::span<const std::byte> rest_;
};

}  // namespace verbena::fuzz
