// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/polled_writes.h"

#include <time.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "nic/rules/watchpoint.h"
#include "nic/verbs/checked.h"

namespace verbena::verbs {
namespace {

// The first WRITEs of each queue pair and then one of many are looked at, for this long in all.
constexpr std::uint32_t first_writes = 16, one_of = 1024;
constexpr Nanoseconds time_max = 1'000'000'000;
constexpr std::size_t queue_pairs_max = 4096;
// A thread that polls accesses the word again and again. One that uses its memory for something
// else, at the same moment, accesses a word once or twice.
constexpr std::uint64_t accesses_min = 16;
constexpr Nanoseconds until_first_access = 200'000, until_last_access = 2'000'000;

void rest() {
	constexpr timespec time{0, 20'000};
	nanosleep(&time, nullptr);
}

// The longest word that is aligned and lies at the begin of the memory, or at its end.
unsigned first_word(std::uint64_t address, std::uint64_t length) {
	return static_cast<unsigned>(std::min<std::uint64_t>({8, address & -address, std::bit_floor(length)}));
}
unsigned last_word(std::uint64_t address, std::uint64_t length) {
	const std::uint64_t end = address + length;
	return static_cast<unsigned>(std::min<std::uint64_t>({8, end & -end, std::bit_floor(length)}));
}

}  // namespace

PolledWrites::Arrived* PolledWrites::find(std::uint32_t qpn) {
	if (!checked()->wants_polled_writes() || spent_ > time_max) return nullptr;
	const auto found = arrived_.find(qpn);
	if (found != arrived_.end()) return &found->second;
	return arrived_.size() < queue_pairs_max ? &arrived_[qpn] : nullptr;
}

void PolledWrites::note_message(std::uint32_t qpn) {
	if (Arrived* const arrived = find(qpn)) arrived->messages = true;
}

void PolledWrites::begins(std::uint32_t qpn, std::uint64_t address, std::uint64_t length) {
	Arrived* const arrived = find(qpn);
	if (!arrived) return;
	arrived->address = address;
	arrived->length = length;
}

void PolledWrites::look(std::uint32_t qpn) {
	Arrived* const arrived = find(qpn);
	if (!arrived || !arrived->length) return;
	const std::uint64_t address = arrived->address, length = std::exchange(arrived->length, 0);
	if (length > last_word(address, length)) arrived->data = true;
	// Data that a message announces may have other words beside it.
	else if (!arrived->data || arrived->messages) return;
	if (const std::uint32_t number = arrived->writes++; number >= first_writes && number % one_of != 0) return;
	const Nanoseconds begin = monotonic_now();
	rules::Watchpoint watchpoint;
	const unsigned first = first_word(address, length), last = last_word(address, length);
	const std::uint64_t last_address = address + length - last;
	bool watched = watchpoint.watch(last_address, last);
	if (address + first <= last_address) watched = watchpoint.watch(address, first) && watched;
	rules::Watchpoint::Accesses accesses;
	if (watched) {
		const Nanoseconds since = monotonic_now();
		do {
			rest();
			accesses = watchpoint.most();
		} while (accesses.count < accesses_min &&
			monotonic_now() - since < (accesses.count ? until_last_access : until_first_access));
	}
	if (accesses.count >= accesses_min) checked()->write_is_polled(qpn, address, length, accesses.count, accesses.next);
	spent_ += monotonic_now() - begin;
}

}  // namespace verbena::verbs
