// SPDX-License-Identifier: Apache-2.0
// The book's regions whose memory was mapped anew or given back.
#include <algorithm>
#include <cinttypes>

#include "nic/rules/book.h"
#include "nic/rules/mapping_mark.h"
#include "nic/rules/names.h"
#include "nic/rules/segments.h"

namespace verbena::rules {
namespace {

// By its first and its last byte.
bool is_replaced(std::uint64_t begin, std::uint64_t end) { return lacks_mark(begin) || lacks_mark(end - 1); }

constexpr std::size_t ranges_max = 64;  // that are kept of a region

}  // namespace

void Book::check_mapping(Region& region, const queues::Segment& used, const std::string& user) {
	if (!region.marked || !used.length) return;
	read_given_back();
	const auto gone = std::ranges::find_if(region.given_back,
		[&](const Range& range) { return overlap(range.begin, range.end - range.begin, used.address, used.length); });
	if (gone != region.given_back.end()) {
		region.marked = false;
		return findings_.report(Rule::mem_given_back_while_registered, region.made,
			text("%s the memory %s of a region, and the program has given %s back since the registration", user.c_str(),
				range_name(used.address, used.length).c_str(),
				range_name(gone->begin, gone->end - gone->begin).c_str()));
	}
	if (!is_replaced(used.address, used.address + used.length)) return;
	region.marked = false;
	findings_.report(Rule::mem_remapped_while_registered, region.made,
		text("%s the memory %s of a region, which was unmapped and mapped again since the registration", user.c_str(),
			range_name(used.address, used.length).c_str()));
}

void Book::check_mappings(const std::vector<queues::Segment>& segments, const std::string& user) {
	for (const queues::Segment& segment : segments)
		if (is_registered(segment)) check_mapping(regions_.at(lkeys_.at(segment.lkey)), segment, user);
}

// Pages of a file in memory stay the same, and a region of those has no mark.
void Book::read_given_back() {
	given_back_.take([this](std::uint64_t begin, std::uint64_t end) {
		for (auto& [handle, region] : regions_) {
			const Range part{
				std::max(begin, region.facts.begin), std::min(end, region.facts.begin + region.facts.length)};
			if (region.marked && part.begin < part.end && region.given_back.size() < ranges_max)
				region.given_back.push_back(part);
		}
	});
}

void Book::check_older_regions(const RegionFacts& made, Site site) {
	for (auto& [handle, region] : regions_) {
		const std::uint64_t begin = std::max(made.begin, region.facts.begin);
		const std::uint64_t end = std::min(made.begin + made.length, region.facts.begin + region.facts.length);
		if (!region.marked || begin >= end || !is_replaced(begin, end)) continue;
		findings_.report(Rule::mr_overlap_stale_cache, site,
			text("%s was unmapped and mapped again since an older region has registered it, which is not deregistered",
				range_name(begin, end - begin).c_str()),
			{{"the older region was registered here", region.made}});
		// The new region's mark hides the old one's loss.
		region.marked = false;
	}
}

}  // namespace verbena::rules
