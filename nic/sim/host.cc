// SPDX-License-Identifier: Apache-2.0
#include "nic/sim/host.h"

#include <algorithm>

namespace verbena::sim {

Region::Region(std::uint64_t iova, std::uint32_t size) : storage_(size + 2 * guard, poison), iova_(iova) {}

bool Region::guards_are_intact() const {
	const auto intact = [](std::span<const std::byte> bytes) {
		return std::ranges::all_of(bytes, [](std::byte b) { return b == poison; });
	};
	return intact(std::span(storage_).first(guard)) && intact(std::span(storage_).last(guard));
}

Host::Host(Fabric& fabric, std::uint32_t id, Random random, Nanoseconds now)
	: fabric(fabric),
	  id(id),
	  gid{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(id >> 8),
		  static_cast<std::uint8_t>(id)},
	  adapter(random(), now) {
	adapter.queue_pairs().add_block(1 + static_cast<std::uint32_t>(random.below(4094)), random());
}

Region& Host::region(std::uint32_t size, std::uint8_t access, std::uint32_t protection_domain) {
	Region& region = regions_.emplace_back((std::uint64_t{id} << 40) + (std::uint64_t{regions_.size()} << 28), size);
	region.key_ = adapter.context().keys.register_region({.protection_domain = protection_domain,
		.iova = region.iova_,
		.address = reinterpret_cast<std::uintptr_t>(region.bytes().data()),
		.length = size,
		.access = access});
	return region;
}

bool Host::guards_are_intact() const {
	return std::ranges::all_of(regions_, [](const Region& region) { return region.guards_are_intact(); });
}

int Host::raised(transport::AsyncEvent kind) const {
	return static_cast<int>(
		std::ranges::count_if(events, [&](const transport::RaisedEvent& event) { return event.kind == kind; }));
}

}  // namespace verbena::sim
