// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/unread_items.h"

#include <algorithm>
#include <cstring>

namespace verbena::rpc {
namespace {

// Each block of small items has twice the room of the one before, within these bounds. An item
// above `alone_min` that finds no room has a block of its own size.
constexpr std::size_t block_min = 64, block_max = 16 << 10, alone_min = 1 << 10;
constexpr std::size_t heap_overhead = 16;  // per block, of malloc

}  // namespace

bool UnreadItems::push(std::span<const std::byte> body, Arrived& arrived) {
	if (!worth_copying(body.size(), arrived.bytes().size())) {
		if (!add_block(arrived.bytes().size())) return false;
		blocks_.back().share = arrived.share();
		blocks_.back().shared = arrived.kept(body);
		return true;
	}
	const auto length = static_cast<Length>(body.size());
	const std::size_t size = sizeof length + length;
	const std::size_t last = blocks_.empty() ? 0 : blocks_.back().items.capacity();
	if (last == 0 || last - blocks_.back().items.size() < size) {
		const std::size_t room = size > alone_min ? size : std::max(size, std::clamp(2 * last, block_min, block_max));
		if (!add_block(room)) return false;
		blocks_.back().items.reserve(room);
	}
	Buffer& items = blocks_.back().items;
	const auto* const bytes = reinterpret_cast<const std::byte*>(&length);
	items.insert(items.end(), bytes, bytes + sizeof length);
	items.insert(items.end(), body.begin(), body.end());
	return true;
}

std::span<const std::byte> UnreadItems::front() const {
	const Block& first = blocks_.front();
	if (first.share) return first.shared;
	Length length = 0;
	std::memcpy(&length, first.items.data() + first.read, sizeof length);
	return std::span(first.items).subspan(first.read + sizeof length, length);
}

void UnreadItems::pop() {
	Block& first = blocks_.front();
	first.read += sizeof(Length) + front().size();
	if (first.share || first.read == first.items.size()) drop_block();
}

void UnreadItems::clear() {
	while (!blocks_.empty()) drop_block();
}

bool UnreadItems::add_block(std::size_t bytes) {
	const std::size_t cost = bytes + sizeof(Block) + heap_overhead;
	if (counted_ && !counted_->take(cost)) return false;
	blocks_.emplace_back().cost = cost;
	return true;
}

void UnreadItems::drop_block() {
	if (counted_) counted_->give_back(blocks_.front().cost);
	blocks_.pop_front();
}

}  // namespace verbena::rpc
