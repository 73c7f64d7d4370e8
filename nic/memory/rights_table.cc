// SPDX-License-Identifier: Apache-2.0
#include "nic/memory/rights_table.h"

#include <utility>

namespace verbena::memory {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

// Makes the sequence odd while it lives, so that a reader discards what it reads meanwhile.
class Change {
public:
	explicit Change(std::atomic<std::uint32_t>& sequence) : sequence_(sequence), before_(sequence.load(relaxed)) {
		sequence_.store(before_ + 1, relaxed);
		std::atomic_thread_fence(std::memory_order_release);
	}
	~Change() { sequence_.store(before_ + 2, std::memory_order_release); }
	Change(const Change&) = delete;
	Change& operator=(const Change&) = delete;

private:
	std::atomic<std::uint32_t>& sequence_;
	std::uint32_t before_;
};

}  // namespace

void RightsTable::Key::copy_to(KeyRights& rights) const {
	const std::uint32_t both = access_backing.load(relaxed);
	rights.key = key.load(relaxed);
	rights.protection_domain = protection_domain.load(relaxed);
	rights.access = static_cast<std::uint8_t>(both);
	rights.backing = static_cast<Backing>(both >> 8 & 0xff);
	rights.descriptor = descriptor.load(relaxed);
	rights.begin = begin.load(relaxed);
	rights.end = end.load(relaxed);
	rights.delta = delta.load(relaxed);
	rights.file = file.load(relaxed);
	rights.offset = offset.load(relaxed);
}

bool read_key(const RightsTable& table, std::uint32_t key, Seen<KeyRights>& seen) {
	const RightsTable::Key& entry = table.keys[RightsTable::place_of(key)];
	seen.at = &entry.sequence;
	seen.sequence = entry.sequence.load(std::memory_order_acquire);
	entry.copy_to(seen.rights);
	return key != 0 && seen.rights.key == key && !(seen.sequence & 1) && unchanged(seen);
}

bool read_queue_pair(const RightsTable& table, std::uint32_t qpn, Seen<QueuePairRights>& seen) {
	const std::uint32_t place = table.place_of_queue_pair(qpn);
	if (place == RightsTable::queue_pairs_max) return false;
	const RightsTable::QueuePair& entry = table.queue_pairs[place];
	seen.at = &entry.sequence;
	seen.sequence = entry.sequence.load(std::memory_order_acquire);
	const std::uint32_t both = entry.access_reads.load(relaxed);
	seen.rights = {.qpn = entry.qpn.load(relaxed),
		.destination_qpn = entry.destination_qpn.load(relaxed),
		.protection_domain = entry.protection_domain.load(relaxed),
		.access = static_cast<std::uint8_t>(both),
		.reads_max = static_cast<std::uint8_t>(both >> 8),
		.first_psn = entry.first_psn.load(relaxed),
		.peer = entry.peer.load(relaxed)};
	return qpn != 0 && seen.rights.qpn == qpn && !(seen.sequence & 1) && unchanged(seen);
}

void RightsPublisher::add_block(std::uint32_t block) {
	if (!table_) return;
	for (auto& each : table_->blocks) {
		if (each.load(relaxed) != 0) continue;
		each.store(block + 1, relaxed);
		return;
	}
}

bool RightsPublisher::publish(const KeyRights& rights) {
	if (!table_) return false;
	const std::uint32_t place = RightsTable::place_of(rights.key);
	RightsTable::Key& entry = table_->keys[place];
	if (published_[place] && entry.key.load(relaxed) >> 8 != rights.key >> 8) return false;
	published_[place] = true;
	const Change change(entry.sequence);
	entry.key.store(rights.key, relaxed);
	entry.protection_domain.store(rights.protection_domain, relaxed);
	entry.access_backing.store(rights.access | static_cast<std::uint32_t>(rights.backing) << 8, relaxed);
	entry.descriptor.store(rights.descriptor, relaxed);
	entry.begin.store(rights.begin, relaxed);
	entry.end.store(rights.end, relaxed);
	entry.delta.store(rights.delta, relaxed);
	entry.file.store(rights.file, relaxed);
	entry.offset.store(rights.offset, relaxed);
	return true;
}

bool RightsPublisher::withdraw_key(std::uint32_t key) {
	if (!table_) return false;
	const std::uint32_t place = RightsTable::place_of(key);
	RightsTable::Key& entry = table_->keys[place];
	if (!published_[place] || entry.key.load(relaxed) >> 8 != key >> 8) return false;
	published_[place] = false;
	const Change change(entry.sequence);
	entry.key.store(0, relaxed);
	return true;
}

void RightsPublisher::publish(const QueuePairRights& rights) {
	const std::uint32_t place = table_ ? table_->place_of_queue_pair(rights.qpn) : RightsTable::queue_pairs_max;
	if (place == RightsTable::queue_pairs_max) return;
	RightsTable::QueuePair& entry = table_->queue_pairs[place];
	const Change change(entry.sequence);
	entry.qpn.store(rights.qpn, relaxed);
	entry.destination_qpn.store(rights.destination_qpn, relaxed);
	entry.protection_domain.store(rights.protection_domain, relaxed);
	entry.access_reads.store(rights.access | std::uint32_t{rights.reads_max} << 8, relaxed);
	entry.first_psn.store(rights.first_psn, relaxed);
	entry.peer.store(rights.peer, relaxed);
}

void RightsPublisher::withdraw_queue_pair(std::uint32_t qpn) {
	const std::uint32_t place = table_ ? table_->place_of_queue_pair(qpn) : RightsTable::queue_pairs_max;
	if (place == RightsTable::queue_pairs_max) return;
	RightsTable::QueuePair& entry = table_->queue_pairs[place];
	// Most queue pairs that change are not published, and their page need not be touched.
	if (entry.qpn.load(relaxed) == 0) return;
	const Change change(entry.sequence);
	entry.qpn.store(0, relaxed);
}

bool RightsPublisher::find(std::uint32_t key, KeyRights& found) const {
	const std::uint32_t place = RightsTable::place_of(key);
	if (!table_ || !published_[place]) return false;
	found = table_->keys[place].rights();
	return found.key >> 8 == key >> 8;
}

}  // namespace verbena::memory
