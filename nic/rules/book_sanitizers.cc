// SPDX-License-Identifier: Apache-2.0
// The memory of open requests, for the sanitizers of a program.
#include <algorithm>

#include "nic/rules/book.h"
#include "nic/rules/segments.h"

namespace verbena::rules {

using queues::Segment;
using Access = DeviceThreads::Access;

// A segment with a wrong key may have any address.
bool Book::is_registered(const Segment& segment) const {
	const auto mr = lkeys_.find(segment.lkey);
	if (mr == lkeys_.end()) return false;
	const RegionFacts& region = regions_.at(mr->second).facts;
	return segment.address >= region.begin && segment.length <= region.length &&
		segment.address - region.begin <= region.length - segment.length;
}

void Book::lend(const std::vector<Segment>& segments) const {
	for (const Segment& segment : segments)
		if (is_registered(segment)) sanitizer_.poison({&segment, 1});
}

void Book::give_back(const std::vector<Segment>& segments) const {
	for (const Segment& segment : segments)
		if (lkeys_.contains(segment.lkey)) sanitizer_.unpoison({&segment, 1});
}

// Two requests that meet in memory are not the program's race: other rules are about them.
bool Book::meets_open_request(Access access, const std::vector<Segment>& segments) const {
	const auto send_meets = [&](const OpenSend& send) {
		return !send.is_inline && (access == Access::writes || send.reads()) && share_bytes(send.segments, segments);
	};
	const auto receive_meets = [&](const OpenReceive& receive) { return share_bytes(receive.segments, segments); };
	return std::ranges::any_of(queue_pairs_,
			   [&](const auto& each) {
				   return std::ranges::any_of(each.second.sends, send_meets) ||
					   std::ranges::any_of(each.second.receives, receive_meets);
			   }) ||
		std::ranges::any_of(
			shared_queues_, [&](const auto& each) { return std::ranges::any_of(each.second.receives, receive_meets); });
}

DeviceThreads::Use Book::watch(Access access, const std::vector<Segment>& segments, Site posted_at) {
	if (!DeviceThreads::are_seen() || meets_open_request(access, segments)) return {};
	std::vector<Segment> registered;
	std::ranges::copy_if(
		segments, std::back_inserter(registered), [&](const Segment& each) { return is_registered(each); });
	return device_threads_.begin(access, registered, findings_.sites().stack_of(posted_at));
}

}  // namespace verbena::rules
