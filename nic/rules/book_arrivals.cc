// SPDX-License-Identifier: Apache-2.0
// The acts of peers on the memory of the program.
#include <algorithm>
#include <cinttypes>

#include "nic/rules/book.h"
#include "nic/rules/names.h"
#include "nic/rules/segments.h"

namespace verbena::rules {
namespace {

// A program may use a word in two ways in two phases. It does so again and again only if nothing
// orders the two.
constexpr unsigned series_max = 3;
constexpr Nanoseconds series_within = 1'000'000'000;
constexpr std::size_t words_max = 65536;
// A message without a packet for this long does not go on: its sender has ended.
constexpr Nanoseconds message_gap_max = 10'000'000;

}  // namespace

bool Series::is_third(Nanoseconds now) {
	if (count == 0 || now - since > series_within) *this = {.since = now, .count = 0};
	return ++count == series_max;
}

QueuePair* Book::find_by_number(std::uint32_t qpn) {
	const auto found = numbers_.find(qpn);
	return found == numbers_.end() ? nullptr : find_queue_pair(found->second);
}

Site Book::made_at(std::uint32_t qpn) {
	const QueuePair* const qp = find_by_number(qpn);
	return qp ? qp->made : 0;
}

void Book::write_goes_on(std::uint32_t qpn, bool last, Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	const auto found = open_writes_.find(qpn);
	if (found == open_writes_.end()) return;
	found->second.seen = now;
	if (last) open_writes_.erase(found);
}

void Book::writes_end(std::uint32_t qpn) {
	const std::lock_guard lock(mutex_);
	open_writes_.erase(qpn);
}

void Book::write_arrives(std::uint32_t qpn, std::uint64_t address, std::uint64_t length, bool last, Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	for (const auto& [other, open] : open_writes_)
		if (other != qpn && now - open.seen < message_gap_max && overlap(open.address, open.length, address, length))
			findings_.report(Rule::remote_races, made_at(qpn),
				text("a WRITE by the peer of QP 0x%x to %s begins before one by the peer of QP 0x%x to %s has ended",
					qpn, range_name(address, length).c_str(), other, range_name(open.address, open.length).c_str()),
				{{text("QP 0x%x was made here", other), made_at(other)}});
	if (last) open_writes_.erase(qpn);
	else open_writes_.insert_or_assign(qpn, OpenWrite{address, length, now});
	const auto report = [&](const std::string& name, Site posted) {
		findings_.report(Rule::remote_write_on_posted, posted,
			text("a WRITE by the peer of QP 0x%x to %s changes the memory of %s, which has not completed", qpn,
				range_name(address, length).c_str(), name.c_str()),
			{{text("QP 0x%x was made here", qpn), made_at(qpn)}});
	};
	for (const auto& [handle, qp] : queue_pairs_) {
		for (const OpenSend& send : qp.sends)
			if (!send.is_inline && lie_in(send.segments, address, length))
				report(text("%s on QP 0x%x", request_name(send.opcode, send.wr_id).c_str(), qp.facts.qpn),
					send.caller.site);
		for (const OpenReceive& receive : qp.receives)
			if (lie_in(receive.segments, address, length))
				report(text("the receive with wr_id %" PRIu64 " on QP 0x%x", receive.wr_id, qp.facts.qpn),
					receive.caller.site);
	}
	for (const auto& [handle, srq] : shared_queues_)
		for (const OpenReceive& receive : srq.receives)
			if (lie_in(receive.segments, address, length))
				report(text("the receive with wr_id %" PRIu64 " on a shared receive queue", receive.wr_id),
					receive.caller.site);
	forget_digests(std::vector{queues::Segment{address, static_cast<std::uint32_t>(length), 0}});
	// Words of atomics in a large range are rare, and in a small one few.
	for (std::uint64_t word = (address + 7) & ~std::uint64_t{7}; word < address + std::min<std::uint64_t>(length, 4096);
		word += 8) {
		const auto found = atomic_words_.find(word);
		if (found == atomic_words_.end()) continue;
		if (found->second.qpn != qpn)
			findings_.report(Rule::atomic_vs_write, made_at(qpn),
				text("the peer of QP 0x%x writes the word at 0x%" PRIx64
					 ", which the peer of QP 0x%x changes by atomics",
					qpn, word, found->second.qpn),
				{{text("QP 0x%x was made here", found->second.qpn), made_at(found->second.qpn)}});
		atomic_words_.erase(found);
	}
}

void Book::atomic_arrives(
	std::uint32_t qpn, std::uint64_t address, std::uint64_t before, std::uint64_t after, Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	if (atomic_words_.size() >= words_max) atomic_words_.clear();
	atomics_arrived_ = true;
	forget_digests(std::vector{queues::Segment{address, sizeof after, 0}});
	AtomicWord& word = atomic_words_.try_emplace(address, AtomicWord{.value = before, .qpn = qpn}).first->second;
	if (word.value != before && word.changes.is_third(now))
		findings_.report(Rule::atomic_vs_cpu, made_at(qpn),
			text("the processor has changed the word at 0x%" PRIx64
				 " between atomics of the peer of QP 0x%x (%u times within a second; it was %" PRIu64
				 " after the last atomic and is %" PRIu64 " now)",
				address, qpn, series_max, word.value, before));
	const QueuePair* const last = find_by_number(word.qpn);
	const QueuePair* const next = find_by_number(qpn);
	if (last && next && last->facts.device != next->facts.device && word.switches.is_third(now))
		findings_.report(Rule::atomic_two_devices, next->made,
			text("the word at 0x%" PRIx64
				 " is changed by atomics of QP 0x%x and of QP 0x%x by turns, which belong to two devices",
				address, word.qpn, qpn),
			{{text("QP 0x%x was made here", word.qpn), last->made}});
	word.value = after;
	word.qpn = qpn;
}

void Book::wrong_key(std::uint32_t qpn, std::uint32_t key) {
	const std::lock_guard lock(mutex_);
	const auto gone = std::ranges::find(retired_, key, &Retired::rkey);
	if (gone != retired_.end())
		findings_.report(Rule::mr_dereg_advertised, gone->deregistered,
			text("the peer of QP 0x%x has used the rkey 0x%x after its region was deregistered", qpn, key),
			{{"the region was registered here", gone->made}, {text("QP 0x%x was made here", qpn), made_at(qpn)}});
	const auto mr = lkeys_.find(key);
	if (mr == lkeys_.end()) return;
	findings_.report(Rule::lkey_for_rkey, regions_.at(mr->second).made,
		text("the peer of QP 0x%x has used the lkey 0x%x as an rkey, which is 0x%x", qpn, key,
			regions_.at(mr->second).facts.rkey),
		{registered_note(key)});
}

void Book::memory_is_gone(std::uint32_t qpn, std::uint32_t rkey, std::uint64_t address) {
	const std::lock_guard lock(mutex_);
	for (const auto& [handle, region] : regions_)
		if (region.facts.rkey == rkey)
			findings_.report(Rule::mem_freed_while_registered, region.made,
				text("the peer of QP 0x%x uses the memory at 0x%" PRIx64
					 " of the region with rkey 0x%x, and it is not mapped any more",
					qpn, address, rkey));
}

void Book::memory_is_used(std::uint32_t qpn, std::uint32_t rkey, std::uint64_t address, std::uint64_t length) {
	const std::lock_guard lock(mutex_);
	for (auto& [handle, region] : regions_)
		if (region.facts.rkey == rkey)
			check_mapping(
				region, {address, static_cast<std::uint32_t>(length), 0}, text("the peer of QP 0x%x uses", qpn));
}

void Book::write_is_polled(
	std::uint32_t qpn, std::uint64_t address, std::uint64_t length, std::uint64_t count, std::uintptr_t next) {
	const std::lock_guard lock(mutex_);
	const Site made = made_at(qpn);
	const Site access = next ? findings_.sites().of_instruction(next) : made;
	if (!access) return;
	findings_.report(Rule::poll_memory_write, access,
		text("while a WRITE by the peer of QP 0x%x to %s arrived, a thread accessed a word of this memory %" PRIu64
			 " times and more, here and perhaps elsewhere",
			qpn, range_name(address, length).c_str(), count),
		{{text("QP 0x%x was made here", qpn), made}});
}

void Book::receiver_not_ready(std::uint32_t qpn) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_by_number(qpn);
	if (!qp) return;
	findings_.report(Rule::rq_starved_rnr, qp->made,
		text("a message has found no receive on QP 0x%x, %s", qpn,
			qp->facts.srq             ? "whose shared receive queue was empty"
				: qp->receives_posted ? text("although %" PRIu64 " were posted before", qp->receives_posted).c_str()
									  : "on which none was posted before"));
}

}  // namespace verbena::rules
