// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/direct.h"

#include <cstdint>

#include "base/log.h"
#include "nic/heap/heap.h"

namespace verbena::verbs {

using memory::Backing;
using memory::KeyRights;

namespace {

constexpr std::uint8_t remote_access = memory::remote_write | memory::remote_read | memory::remote_atomic;
constexpr std::uint8_t writing_access = memory::remote_write | memory::remote_atomic;

void* address_of(const KeyRights& rights) { return reinterpret_cast<void*>(rights.begin + rights.delta); }

// Names the heap's file, if the region lies in one. False: it does not.
bool place_in_heap(KeyRights& rights) {
	const auto place = heap::find(address_of(rights), rights.end - rights.begin);
	if (!place) return false;
	rights.backing = Backing::heap;
	rights.file = place->file;
	rights.offset = place->offset;
	rights.descriptor = static_cast<std::uint32_t>(place->descriptor);
	return true;
}

struct Range {
	std::uint64_t begin, end;

	// The whole pages that contain it.
	static Range pages_of(const KeyRights& rights) {
		constexpr std::uint64_t page = 4096;
		const auto begin = reinterpret_cast<std::uint64_t>(address_of(rights));
		return {begin & ~(page - 1), (begin + (rights.end - rights.begin) + page - 1) & ~(page - 1)};
	}
	bool overlaps(const KeyRights& rights) const {
		const Range other = pages_of(rights);
		return other.begin < end && begin < other.end;
	}
};

// Gives the region's pages to the peers that still write to them, and takes new ones with the same
// contents. Other regions on these pages are first withdrawn from the heap's file and afterwards
// published with the new one, so that no peer's bytes are lost: a peer that was still copying finds
// that its right has changed, and repeats its request through the ring.
void move_away(engine::Engine& engine, const KeyRights& region) {
	log::debug("a peer makes no progress in a direct operation, and the pages of its region are replaced");
	const Range range = Range::pages_of(region);
	const bool moved = engine.control([&](adapter::ChannelAdapter& adapter) {
		memory::RightsPublisher& rights = adapter.context().rights;
		rights.for_each_key([&](KeyRights other) {
			if (other.backing != Backing::heap || !range.overlaps(other)) return;
			other.backing = Backing::none;
			rights.publish(other);
		});
		// Peers that make no progress either keep the old pages, too.
		static_cast<void>(engine.await_direct_locked([&](wire::DirectAccess access) {
			KeyRights other;
			return rights.find(access.key(), other) && range.overlaps(other);
		}));
		adapter.context().shared.remove_overlapping(range.begin, range.end);
		const bool done = heap::move(address_of(region), region.end - region.begin);
		rights.for_each_key([&](KeyRights other) {
			if (other.backing == Backing::none && range.overlaps(other) && place_in_heap(other)) rights.publish(other);
		});
		return done;
	});
	if (!moved)
		log::warn(
			"a peer was stopped while it wrote to memory that is not registered any more, and its pages could not be "
			"replaced: it may still write there when it continues");
}

KeyRights rights_of(const SoftMr& mr) {
	const ibv_mr& m = mr.public_mr;
	KeyRights rights{.key = m.rkey,
		.protection_domain = SoftPd::of(m.pd).number,
		.access = static_cast<std::uint8_t>(mr.access & remote_access),
		.begin = mr.access & IBV_ACCESS_ZERO_BASED ? 0 : mr.iova};
	rights.end = rights.begin + m.length;
	rights.delta = reinterpret_cast<std::uint64_t>(m.addr) - rights.begin;
	return rights;
}

}  // namespace

void publish(transport::Context& context, const SoftMr& mr) {
	KeyRights rights = rights_of(mr);
	if (rights.access == 0) return;
	if (!place_in_heap(rights) && mr.backing) {
		rights.backing = Backing::readable;
		rights.file = mr.backing->file.file;
		rights.offset = mr.backing->file.offset;
		rights.descriptor = mr.backing->file.descriptor;
	}
	context.rights.publish(rights);
}

void await_peers_of_region(engine::Engine& engine, const SoftMr& mr) {
	const KeyRights region = rights_of(mr);
	if (!(region.access & writing_access) || !heap::contains(mr.public_mr.addr)) return;
	const auto uses_it = [&](wire::DirectAccess access) { return access.key() >> 8 == region.key >> 8; };
	if (!engine.await_direct(uses_it)) move_away(engine, region);
}

void await_peers_of_queue_pair(engine::Engine& engine, std::uint32_t qpn) {
	std::uint32_t key = 0;
	const bool ended = engine.await_direct([&](wire::DirectAccess access) {
		if (access.qpn().value != qpn) return false;
		key = access.key();
		return true;
	});
	if (ended) return;
	KeyRights region;
	const bool published =
		engine.control([&](adapter::ChannelAdapter& adapter) { return adapter.context().rights.find(key, region); });
	// If the key was withdrawn too, the verb that did so has moved the pages.
	if (published && region.backing == Backing::heap) move_away(engine, region);
}

}  // namespace verbena::verbs
