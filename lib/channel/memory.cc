// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/memory.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace verbena::channel {
namespace {

constexpr std::size_t blocks_per_region_min = 4;  // larger blocks have a region each

constexpr std::size_t class_size(std::uint32_t size_class) {
	return (MemoryPool::block_min / 4 * (4 + size_class % 4)) << size_class / 4;
}

// The last class whose size is a std::size_t: there are four for each doubling.
constexpr std::uint32_t last_class =
	4 * (std::numeric_limits<std::size_t>::digits - std::countr_zero(MemoryPool::block_min)) - 1;

// The smallest class that holds `size`; the last one for a size beyond all classes.
std::uint32_t class_of(std::size_t size) {
	if (size <= MemoryPool::block_min) return 0;
	const auto doublings = static_cast<std::uint32_t>(std::bit_width((size - 1) / MemoryPool::block_min) - 1);
	std::uint32_t size_class = doublings * 4;
	while (size_class < last_class && class_size(size_class) < size) ++size_class;
	return size_class;
}

}  // namespace

MemoryPool::MemoryPool(ibv_pd* domain, int access, const MemoryOptions& options)
	: domain_(domain), access_(access), options_(options) {}

MemoryPool::~MemoryPool() { check(in_use_ == 0, "buffers are destroyed before their pool"); }

std::size_t MemoryPool::block_size(std::size_t size) { return class_size(class_of(size)); }

Buffer MemoryPool::take(std::size_t size) {
	const std::uint32_t size_class = class_of(size);
	if (size_class >= class_count || (free_[size_class] == nullptr && !grow(size_class))) {
		++counters_.refused;
		return {};
	}
	Block* const block = std::exchange(free_[size_class], free_[size_class]->next);
	in_use_ += block->size;
	return Buffer(block, size);
}

std::expected<Buffer, std::string> MemoryPool::adopt(std::span<std::byte> memory) {
	auto region = lib::make_memory_region(domain_, memory.data(), memory.size(), access_);
	if (!region) return std::unexpected(region.error());
	++counters_.registrations;
	in_use_ += memory.size();
	auto* const block = new Block{.owner = this,
		.data = memory.data(),
		.size = memory.size(),
		.region = region->release(),
		.size_class = adopted};
	return Buffer(block, memory.size());
}

void MemoryPool::give_back(Block* block) {
	in_use_ -= block->size;
	if (block->size_class == adopted) {
		ibv_dereg_mr(block->region);
		delete block;
		return;
	}
	block->next = free_[block->size_class];
	free_[block->size_class] = block;
	if (freed_) freed_();
}

bool MemoryPool::grow(std::uint32_t size_class) {
	const std::size_t size = class_size(size_class);
	const bool shared = size * blocks_per_region_min <= options_.region_bytes;
	std::size_t bytes = shared ? options_.region_bytes / size * size : size;
	if (registered_ + bytes > options_.max && !free_unused(registered_ + bytes - options_.max)) {
		// Near the watermark a single block may still fit.
		bytes = size;
		if (registered_ + bytes > options_.max) return false;
	}
	auto region = std::make_unique<Region>();
	region->memory = RegionMemory(bytes);
	if (!region->memory) return false;
	std::byte* const at = region->memory.data();
	auto registration = lib::make_memory_region(domain_, at, bytes, access_);
	if (!registration) return false;
	++counters_.registrations;
	region->registration = std::move(*registration);
	region->blocks.resize(bytes / size);
	for (std::size_t i = region->blocks.size(); i-- > 0;) {
		region->blocks[i] = {.next = free_[size_class],
			.owner = this,
			.data = at + i * size,
			.size = size,
			.region = region->registration.get(),
			.size_class = size_class};
		free_[size_class] = &region->blocks[i];
	}
	registered_ += bytes;
	regions_.push_back(std::move(region));
	return true;
}

// Frees regions without a block in use, until at least `wanted` bytes are freed. False: fewer were.
bool MemoryPool::free_unused(std::size_t wanted) {
	std::size_t freed = 0;
	std::erase_if(regions_, [&](const std::unique_ptr<Region>& region) {
		const auto in_use = [](const Block& block) { return block.references > 0; };
		if (freed >= wanted || std::ranges::any_of(region->blocks, in_use)) return false;
		const auto inside = [&](const Block* block) {
			return block >= &region->blocks.front() && block <= &region->blocks.back();
		};
		for (Block** at = &free_[region->blocks.front().size_class]; *at != nullptr;) {
			if (inside(*at)) *at = (*at)->next;
			else at = &(*at)->next;
		}
		freed += region->memory.size();
		return true;
	});
	registered_ -= freed;
	return freed >= wanted;
}

}  // namespace verbena::channel
