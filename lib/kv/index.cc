// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/index.h"

#include <algorithm>
#include <atomic>
#include <bit>

#include "base/random.h"

namespace verbena::kv {
namespace {

constexpr std::uint32_t grain = 64;               // records begin at multiples of this many bytes
constexpr std::uint32_t part_of_records_max = 8;  // a record takes at most an eighth of the ring

std::uint32_t rounded(std::uint32_t bytes) { return (bytes + grain - 1) / grain * grain; }

// Makes earlier stores visible to readers now. The order among them does not matter, because the
// readers' checksums detect any mixture.
void show() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// Empties a line. Its version grows, so that a reader cannot combine the old header with new
// content.
void clear(LineHeader& header) {
	const std::uint32_t version = header.version + 1;
	header.key_length = 0;
	header = {.version = version};
	show();
}

}  // namespace

std::unique_ptr<Index> Index::make(channel::MemoryPool& pool, std::size_t bytes) {
	channel::Buffer area = pool.take(std::clamp(bytes, bytes_min, bytes_max));
	if (!area) return nullptr;
	return std::unique_ptr<Index>(new Index(std::move(area)));
}

Index::Index(channel::Buffer area) : area_(std::move(area)) {
	shape_ = {.seed = secure_random<std::uint64_t>(),
		.lines = static_cast<std::uint32_t>(std::bit_floor(area_.size() / 4 / line_bytes))};
	begin_ = next_ = shape_.lines * line_bytes;
	std::memset(area_.data(), 0, begin_);
}

LineHeader& Index::header_at(std::uint32_t line) const {
	return *reinterpret_cast<LineHeader*>(area_.data() + std::size_t{line} * line_bytes);
}

std::byte* Index::record_of(LineHeader& header) const {
	return header.offset != 0 ? area_.data() + header.offset : reinterpret_cast<std::byte*>(&header + 1);
}

LineHeader* Index::published_line(std::string_view key, std::uint64_t hash) const {
	LineHeader& header = header_at(hash & (shape_.lines - 1));
	if (header.hash != hash || header.key_length != key.size()) return nullptr;
	return std::memcmp(record_of(header) + header.value_length, key.data(), key.size()) == 0 ? &header : nullptr;
}

void Index::publish(std::string_view key, Bytes value) { publish(key, value, index_hash(key, shape_.seed)); }

// Returns false if the value is too large for the area; then the key is withdrawn.
bool Index::publish(std::string_view key, Bytes value, std::uint64_t hash) {
	const auto line = static_cast<std::uint32_t>(hash & (shape_.lines - 1));
	LineHeader& header = header_at(line);
	LineHeader fresh{.hash = hash,
		.value_length = static_cast<std::uint32_t>(value.size()),
		.key_length = static_cast<std::uint16_t>(key.size())};
	if (fresh.record_bytes() > inside_max) {
		fresh.offset = place_for(header, line, fresh.record_bytes());
		if (fresh.offset == 0) {
			withdraw(key);
			return false;
		}
	}
	// The line is empty while its content changes.
	clear(header);
	fresh.version = header.version + 1;
	header.offset = fresh.offset;
	std::byte* const at = record_of(header);
	if (!value.empty()) std::memcpy(at, value.data(), value.size());
	std::memcpy(at + value.size(), key.data(), key.size());
	fresh.content = content_checksum(at, fresh.record_bytes(), fresh.version);
	fresh.checksum = fresh.own_checksum();
	show();
	header = fresh;
	show();
	++counters_.published;
	return true;
}

bool Index::set(std::string_view key, Bytes value) {
	const std::uint64_t hash = index_hash(key, shape_.seed);
	LineHeader* const header = published_line(key, hash);
	if (header == nullptr) return false;
	if (value.size() <= refreshed_max) return publish(key, value, hash);
	clear(*header);
	++counters_.withdrawn;
	return false;
}

bool Index::withdraw(std::string_view key) {
	LineHeader* const header = published_line(key, index_hash(key, shape_.seed));
	if (header == nullptr) return false;
	clear(*header);
	++counters_.withdrawn;
	return true;
}

// Returns the offset for a record of this many bytes, 0 if it is too large. The line's present
// record is reused if it is large enough; otherwise the oldest records in the way are evicted.
std::uint32_t Index::place_for(LineHeader& header, std::uint32_t line, std::uint32_t bytes) {
	const std::uint32_t wanted = rounded(bytes);
	const auto end = static_cast<std::uint32_t>(area_.size() / grain * grain);
	if (wanted > (end - begin_) / part_of_records_max) return 0;
	if (header.key_length != 0 && header.offset != 0 && rounded(header.record_bytes()) >= wanted) return header.offset;
	// A record is contiguous: what is left at the area's end is skipped, and its records evicted.
	if (next_ + wanted > end) {
		while (!records_.empty() && records_.front().offset >= next_) evict_oldest();
		next_ = begin_;
	}
	while (!records_.empty() && records_.front().offset >= next_ && records_.front().offset < next_ + wanted)
		evict_oldest();
	records_.push_back({.offset = next_, .line = line});
	next_ += wanted;
	return records_.back().offset;
}

void Index::evict_oldest() {
	const Record oldest = records_.front();
	records_.pop_front();
	LineHeader& header = header_at(oldest.line);
	if (header.key_length == 0 || header.offset != oldest.offset) return;
	clear(header);
	++counters_.evicted;
}

}  // namespace verbena::kv
