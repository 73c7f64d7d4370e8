// SPDX-License-Identifier: Apache-2.0
#include "nic/faults/fate.h"

#include <algorithm>

#include "base/random.h"

namespace verbena::faults {
namespace {

enum class Draw : std::uint64_t { loss, duplicate, reorder, corrupt, bits, jitter, held_back, qp_error, not_ready };

// A random number that belongs to one draw for one sending of one packet.
std::uint64_t random_of(std::uint64_t seed, std::uint64_t packet, std::uint32_t times, Draw draw) {
	std::uint64_t state = seed ^ packet;
	state = split_mix(state) + times;
	state = split_mix(state) + static_cast<std::uint64_t>(draw);
	return split_mix(state);
}

// From 0 up to, but not including, 1.
double fraction(std::uint64_t random) { return static_cast<double>(random >> 11) * 0x1p-53; }

std::uint64_t scaled(std::uint64_t random, std::uint64_t bound) {
	return static_cast<std::uint64_t>(fraction(random) * static_cast<double>(bound));
}

}  // namespace

std::uint64_t Identity::hash() const {
	std::uint64_t state = std::uint64_t{queue_pair} << 32 | number;
	state = split_mix(state) + (std::uint64_t{arrives} << 8 | opcode);
	return split_mix(state);
}

Fate fate_of(const Faults& faults, std::uint64_t seed, const Identity& identity, std::uint32_t times) {
	const std::uint64_t packet = identity.hash();
	const auto random = [&](Draw draw) { return random_of(seed, packet, times, draw); };
	const auto meets = [&](double probability, Draw draw) {
		return probability > 0 && fraction(random(draw)) < probability;
	};
	Fate fate{.lost = meets(faults.loss, Draw::loss),
		.duplicated = meets(faults.duplicate, Draw::duplicate),
		.reordered = meets(faults.reorder, Draw::reorder),
		.corrupted = meets(faults.corrupt, Draw::corrupt),
		.breaks_queue_pair = identity.queue_pair != 0 && meets(faults.qp_error, Draw::qp_error),
		.delay = faults.delay};
	if (fate.corrupted) fate.bits = random(Draw::bits);
	if (faults.jitter) fate.delay += scaled(random(Draw::jitter), 2 * faults.jitter + 1) - faults.jitter;
	if (fate.reordered) fate.delay += reorder_min + scaled(random(Draw::held_back), reorder_max - reorder_min + 1);
	return fate;
}

bool finds_no_receive(const Faults& faults, std::uint64_t seed, const Identity& identity, std::uint32_t times) {
	return faults.not_ready > 0 &&
		fraction(random_of(seed, identity.hash(), times, Draw::not_ready)) < faults.not_ready;
}

void corrupt(std::vector<std::byte>& packet, std::uint64_t bits) {
	Random random(bits);
	for (std::uint64_t flips = 1 + random.below(3); flips; --flips) {
		const std::uint64_t bit = random.below(packet.size() * 8);
		packet[bit / 8] ^= std::byte{1} << bit % 8;
	}
}

std::uint32_t Repetitions::count(const Identity& identity) {
	const std::uint64_t hash = identity.hash() | 1;  // 0 is an entry without a packet
	auto& entries = sets_[(hash >> 32) % sets].entries;
	++calls_;
	auto entry = std::ranges::find(entries, hash, &Entry::hash);
	if (entry == std::end(entries)) {
		entry = std::ranges::max_element(entries, {}, [&](const Entry& each) { return calls_ - each.used; });
		*entry = {.hash = hash};
	}
	entry->used = calls_;
	return entry->times++;
}

}  // namespace verbena::faults
