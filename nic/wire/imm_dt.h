// SPDX-License-Identifier: Apache-2.0
// Immediate Extended Transport Header: four bytes of the application (IBA 9.3). They are opaque:
// the packet carries the word as it is in memory, whatever the byte order of the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace verbena::wire {

inline constexpr std::size_t imm_dt_size = 4;

inline void write_imm_dt(std::span<std::byte, imm_dt_size> to, std::uint32_t immediate) {
	std::memcpy(to.data(), &immediate, imm_dt_size);
}

inline std::uint32_t read_imm_dt(std::span<const std::byte, imm_dt_size> from) {
	std::uint32_t immediate;
	std::memcpy(&immediate, from.data(), imm_dt_size);
	return immediate;
}

}  // namespace verbena::wire
