// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/ghosts.h"

#include <algorithm>

namespace verbena::kv {

// The bits of the hash that do not select the bucket. 0 would be an empty slot.
Ghosts::Ghost Ghosts::fingerprint_of(std::uint64_t hash) {
	const auto bits = static_cast<Ghost>(hash) & ~epoch_mask;
	return bits == 0 ? 1u << epoch_bits : bits;
}

Ghosts::Ghost* Ghosts::bucket_of(std::uint64_t hash) {
	const std::uint64_t buckets = slots_.size() / ways;
	return &slots_[((hash >> 32) * buckets >> 32) * ways];
}

void Ghosts::make_room(std::size_t remembered) {
	room_ = remembered;
	slots_ = std::vector<Ghost>();  // first, so that both are never there together
	slots_.resize(buckets_for(remembered) * ways);
	epoch_length_ = (remembered + epochs_remembered - 1) / epochs_remembered;
	epoch_ = 0;
	added_in_epoch_ = hand_ = 0;
}

void Ghosts::add(std::uint64_t hash, std::size_t remembered) {
	remembered = std::max<std::size_t>(remembered, 1);
	if (remembered > room_ + room_ / 4) make_room(remembered);
	remembered_ = remembered;
	for (unsigned i = 0; i < swept; ++i) {
		if (!is_remembered(slots_[hand_])) slots_[hand_] = 0;
		if (++hand_ == slots_.size()) hand_ = 0;
	}
	const Ghost fingerprint = fingerprint_of(hash);
	Ghost* const bucket = bucket_of(hash);
	Ghost* chosen = bucket;
	for (Ghost* each = bucket; each < bucket + ways; ++each) {
		if ((*each & ~epoch_mask) == fingerprint || !is_remembered(*each)) {
			chosen = each;
			break;
		}
		if (age_of(*each) > age_of(*chosen)) chosen = each;
	}
	*chosen = fingerprint | epoch_;
	if (++added_in_epoch_ < epoch_length_) return;
	added_in_epoch_ = 0;
	epoch_ = (epoch_ + 1) & epoch_mask;
}

bool Ghosts::take(std::uint64_t hash) {
	if (slots_.empty()) return false;
	const Ghost fingerprint = fingerprint_of(hash);
	Ghost* const bucket = bucket_of(hash);
	for (Ghost* each = bucket; each < bucket + ways; ++each)
		if ((*each & ~epoch_mask) == fingerprint && is_remembered(*each)) {
			*each = 0;
			return true;
		}
	return false;
}

}  // namespace verbena::kv
