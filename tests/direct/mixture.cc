// SPDX-License-Identifier: Apache-2.0
// A scenario that mixes all operations.
#include <string>

#include "scenarios.h"

namespace {
constexpr std::size_t word_of_malloc = 128;
}

// A random mixture of all operations, lengths and keys, with many in flight. The initiator keeps a
// copy of what the target's memory must be in the end: RC executes WRITEs and atomics in order.
struct Mixture {
	static constexpr std::uint32_t written = 256 << 10, received = 512 << 10;
	Aim keys[3];  // two keys of the region, and one of memory that is on no page of its own
};
void mixture_target(Side& s) {
	auto* const plain = static_cast<unsigned char*>(std::calloc(1, s.bytes + word_of_malloc));
	unsigned char* const inside = plain + word_of_malloc / 2;
	ibv_mr* const second = s.register_all();
	ibv_mr* const third = (ibv_reg_mr)(s.pd, inside, s.bytes, everything);
	demand(third, "reg_mr");
	Mixture mixture{{s.aim(s.mr), s.aim(second), s.aim(third)}};
	mixture.keys[2].address = reinterpret_cast<std::uint64_t>(inside);
	for (int i = 0; i < 32; ++i) s.receive(Mixture::received + i * 64u, 64);
	s.put(mixture);
	for (std::uint64_t message = 0;; ++message) {
		s.succeed();
		const std::uint64_t at = Mixture::received + message % 32 * 64;
		if (s.memory[at] == 0xee) break;
		s.receive(at, 64);
	}
	std::printf("written %016llx plain %016llx\n", static_cast<unsigned long long>(digest(s.memory, Mixture::written)),
		static_cast<unsigned long long>(digest(inside, Mixture::written)));
	const auto first = s.get<std::uint64_t>(), other = s.get<std::uint64_t>();
	std::printf("equal %d\n", first == digest(s.memory, Mixture::written) && other == digest(inside, Mixture::written));
	s.meet();
}
void mixture_initiator(Side& s, int rounds) {
	const auto mixture = s.get<Mixture>();
	std::string shadow[2] = {std::string(Mixture::written, '\0'), std::string(Mixture::written, '\0')};
	fill(s, 11);
	std::uint64_t state = 88172645463325252;
	const auto random = [&](std::uint64_t below) {
		state ^= state << 13, state ^= state >> 7, state ^= state << 17;
		return state % below;
	};
	const std::uint64_t sent_at = s.bytes - 64;
	s.memory[sent_at] = 1;
	int in_flight = 0, run = 0, kind = 0, key = 0;
	for (int i = 0; i < rounds; ++i) {
		if (run-- == 0)
			run = static_cast<int>(random(12)), kind = static_cast<int>(random(10)), key = static_cast<int>(random(3));
		const Aim& to = mixture.keys[key];
		std::string& expected = shadow[key == 2];
		const auto length = static_cast<std::uint32_t>(random(4) == 0 ? random(100'000) : random(300));
		const std::uint64_t at = random(Mixture::written - length), from = random(s.bytes / 2 - length);
		if (kind == 0) {
			s.post(IBV_WR_SEND, to, 0, 8, sent_at);
		} else if (kind < 6) {
			s.post(IBV_WR_RDMA_WRITE, to, at, length, from);
			expected.replace(at, length, reinterpret_cast<const char*>(s.memory) + from, length);
		} else if (kind < 9) {
			s.post(IBV_WR_RDMA_READ, to, at, length, s.bytes / 2);
		} else {
			s.post(IBV_WR_ATOMIC_FETCH_AND_ADD, to, at & ~7ull, 8, s.bytes - 8, 12345);
			std::uint64_t value;
			std::memcpy(&value, expected.data() + (at & ~7ull), 8);
			value += 12345;
			std::memcpy(expected.data() + (at & ~7ull), &value, 8);
		}
		if (++in_flight == 48 || random(40) == 0) s.succeed(in_flight), in_flight = 0;
	}
	s.succeed(in_flight);
	s.memory[sent_at] = 0xee;
	s.post(IBV_WR_SEND, mixture.keys[0], 0, 8, sent_at);
	s.succeed();
	for (const std::string& each : shadow)
		s.put(digest(reinterpret_cast<const unsigned char*>(each.data()), each.size()));
	s.meet();
}
