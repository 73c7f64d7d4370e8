// SPDX-License-Identifier: Apache-2.0
#include "bench/rpc/registration.h"

#include <algorithm>
#include <cstring>

#include "base/statistics.h"
#include "base/time.h"

namespace verbena::rpcbench {
namespace {

// Rounds walk through an arena of this size, so that a copy does not find its bytes in a cache.
constexpr std::size_t arena_bytes = 64 << 20;
constexpr int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
constexpr std::size_t rounds = 101;

}  // namespace

std::expected<std::vector<RegistrationCost>, std::string> measure_registration(
	const lib::OpenDevice& device, std::span<const std::size_t> sizes) {
	std::vector<std::byte> from(arena_bytes, std::byte{1}), to(arena_bytes, std::byte{2});
	std::vector<RegistrationCost> costs;
	for (const std::size_t size : sizes) {
		std::vector<double> registering, copying;
		std::size_t at = 0;
		for (std::size_t round = 0; round < rounds; ++round) {
			if (at + size > arena_bytes) at = 0;
			const Nanoseconds began = monotonic_now();
			auto region = lib::make_memory_region(device.domain.get(), from.data() + at, size, access);
			if (!region) return std::unexpected(region.error());
			region->reset();
			const Nanoseconds registered = monotonic_now();
			std::memcpy(to.data() + at, from.data() + at, size);
			const Nanoseconds copied = monotonic_now();
			registering.push_back(static_cast<double>(registered - began) / 1e3);
			copying.push_back(static_cast<double>(copied - registered) / 1e3);
			at += size;
		}
		costs.push_back({.bytes = size, .register_us = median(registering), .copy_us = median(copying)});
	}
	return costs;
}

}  // namespace verbena::rpcbench
