// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/units.h"

#include <sys/mman.h>

#include <algorithm>

namespace verbena::channel {
namespace {

constexpr std::size_t slab_bytes = 1 << 20;

}  // namespace

void UnitPool::Unmap::operator()(std::byte* at) const { munmap(at, bytes); }

UnitPool::UnitPool(ibv_pd* domain, std::uint32_t unit_bytes, std::uint32_t units_max)
	: domain_(domain), unit_bytes_(unit_bytes), units_max_(units_max) {}

Unit* UnitPool::take() {
	if (free_ == nullptr && !grow()) return nullptr;
	Unit* const unit = free_;
	free_ = unit->next;
	unit->next = nullptr;
	++in_use_;
	return unit;
}

bool UnitPool::grow() {
	const std::uint32_t wanted = std::min<std::uint32_t>(slab_bytes / unit_bytes_, units_max_ - count_);
	if (wanted == 0) return false;
	const std::size_t bytes = std::size_t{wanted} * unit_bytes_;
	void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED) return false;
	Slab slab{.memory = {static_cast<std::byte*>(at), {bytes}}};
	// No remote access: peers reach units only by SEND.
	auto region = lib::make_memory_region(domain_, at, bytes, IBV_ACCESS_LOCAL_WRITE);
	if (!region) return false;
	slab.region = std::move(*region);
	slab.units.resize(wanted);
	for (std::uint32_t i = wanted; i-- > 0;) {
		Unit& unit = slab.units[i];
		unit = {.next = free_,
			.data = static_cast<std::byte*>(at) + std::size_t{i} * unit_bytes_,
			.lkey = slab.region->lkey};
		free_ = &unit;
	}
	count_ += wanted;
	slabs_.push_back(std::move(slab));
	return true;
}

}  // namespace verbena::channel
