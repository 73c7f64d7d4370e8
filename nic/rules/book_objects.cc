// SPDX-License-Identifier: Apache-2.0
// The book's objects: what uses what, and which requests use an object that goes.
#include <algorithm>
#include <cinttypes>

#include <infiniband/verbs.h>

#include "nic/rules/book.h"
#include "nic/rules/mapping_mark.h"
#include "nic/rules/names.h"

namespace verbena::rules {

const char* name_of(Kind kind) {
	constexpr const char* names[] = {"protection domain", "memory region", "completion queue", "completion channel",
		"queue pair", "shared receive queue", "address handle"};
	return names[static_cast<std::size_t>(kind)];
}

namespace {

// The records of objects that are gone.
constexpr std::size_t ghosts_max = 65536, retired_max = 4096;

}  // namespace

QueuePair* Book::find_queue_pair(Handle qp) {
	const auto found = queue_pairs_.find(qp);
	return found == queue_pairs_.end() ? nullptr : &found->second;
}

// Calls visit(segments, what, site) for each open request.
template <class Visit> void Book::visit_open(Visit&& visit) {
	for (const auto& [handle, qp] : queue_pairs_) {
		for (const OpenSend& send : qp.sends)
			if (!send.is_inline)
				visit(send.segments, text("%s on QP 0x%x", request_name(send.opcode, send.wr_id).c_str(), qp.facts.qpn),
					send.caller.site);
		for (const OpenReceive& receive : qp.receives)
			visit(receive.segments, text("the receive with wr_id %" PRIu64 " on QP 0x%x", receive.wr_id, qp.facts.qpn),
				receive.caller.site);
	}
	for (const auto& [handle, srq] : shared_queues_)
		for (const OpenReceive& receive : srq.receives)
			visit(receive.segments, text("the receive with wr_id %" PRIu64 " on a shared receive queue", receive.wr_id),
				receive.caller.site);
}

void Book::made(Kind kind, Handle handle, std::vector<Handle> uses, Site site) {
	const std::lock_guard lock(mutex_);
	std::erase(uses, nullptr);
	ghosts_.erase(handle);
	objects_.insert_or_assign(handle, Object{++serial_, kind, site, std::move(uses)});
	if (kind == Kind::srq) shared_queues_[handle];
}

void Book::destroys(Handle handle, Site site) {
	const std::lock_guard lock(mutex_);
	const auto found = objects_.find(handle);
	destroying_[pthread_self()] = {found == objects_.end() ? 0 : found->second.serial, site};
}

void Book::refused_destroy(Handle handle, Site site) {
	const std::lock_guard lock(mutex_);
	destroying_.erase(pthread_self());
	destroyers_.erase(pthread_self());
	const auto found = objects_.find(handle);
	if (found == objects_.end()) return;
	found->second.refused = site;
	if (found->second.kind == Kind::qp) {
		found->second.user = "multicast group";
		return;
	}
	for (const auto& [other, object] : objects_) {
		if (std::ranges::find(object.uses, handle) == object.uses.end()) continue;
		found->second.user = name_of(object.kind);
		if (const QueuePair* const qp = find_queue_pair(other))
			found->second.user = text("queue pair 0x%x", qp->facts.qpn);
		return;
	}
}

void Book::destroyed(Kind kind, Handle handle) {
	const std::lock_guard lock(mutex_);
	destroyers_.erase(pthread_self());
	const auto mine = destroying_.extract(pthread_self());
	const auto object = objects_.find(handle);
	if (object == objects_.end() || !mine || mine.mapped().serial != object->second.serial) return;
	objects_.erase(object);
	if (ghosts_.size() >= ghosts_max) ghosts_.clear();
	ghosts_.insert_or_assign(handle, Ghost{kind, mine.mapped().site});
	switch (kind) {
		case Kind::srq:
			for (const OpenReceive& receive : shared_queues_[handle].receives) give_back(receive.segments);
			shared_queues_.erase(handle);
			break;
		case Kind::cq: completion_queues_.erase(handle); break;
		case Kind::qp:
			if (const auto found = queue_pairs_.find(handle); found != queue_pairs_.end()) {
				forget_requests(found->second);
				numbers_.erase(found->second.facts.qpn);
				queue_pairs_.erase(found);
			}
			break;
		case Kind::mr:
			if (const auto found = regions_.find(handle); found != regions_.end()) {
				lkeys_.erase(found->second.facts.lkey);
				retired_.push_back({found->second.facts.rkey, found->second.made, mine.mapped().site});
				if (retired_.size() > retired_max) retired_.pop_front();
				regions_.erase(found);
			}
			break;
		default: break;
	}
}

void Book::registered(Handle mr, const RegionFacts& facts, Site site) {
	{
		const std::lock_guard lock(mutex_);
		check_older_regions(facts, site);
		read_given_back();
		// With on-demand paging a device follows the program's mappings.
		const bool pinned = !(facts.access & IBV_ACCESS_ON_DEMAND);
		regions_.insert_or_assign(mr, Region{facts, site, pinned && mark_mapping(facts.begin, facts.length), {}});
		lkeys_.insert_or_assign(facts.lkey, mr);
		if (facts.access & IBV_ACCESS_REMOTE_ATOMIC && !atomic_right_) atomic_right_ = site;
	}
	constexpr std::uint64_t large = std::uint64_t{1} << 30;
	const unsigned remote = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	if (facts.length > large && facts.access & remote)
		findings_.report(Rule::rkey_whole_memory, site,
			text("peers may use %" PRIu64 " MiB at 0x%" PRIx64 " by one key", facts.length >> 20, facts.begin));
}

void Book::region_refused(unsigned access, Site site) {
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && !(access & IBV_ACCESS_LOCAL_WRITE))
		findings_.report(Rule::access_write_without_local, site, text("the access 0x%x was refused", access));
}

Note Book::registered_note(std::uint32_t lkey) const {
	const auto mr = lkeys_.find(lkey);
	if (mr == lkeys_.end()) return {};
	const Region& region = regions_.at(mr->second);
	return {text("the region %s with lkey 0x%x was registered here",
				range_name(region.facts.begin, region.facts.length).c_str(), lkey),
		region.made};
}

void Book::deregisters(Handle mr, Site site) {
	const std::lock_guard lock(mutex_);
	const auto found = regions_.find(mr);
	if (found == regions_.end()) return;
	const std::uint32_t lkey = found->second.facts.lkey;
	std::string first;
	Site posted = 0;
	std::uint64_t count = 0;
	visit_open([&](const std::vector<queues::Segment>& segments, const std::string& name, Site where) {
		if (std::ranges::none_of(segments, [&](const queues::Segment& s) { return s.lkey == lkey && s.length; }))
			return;
		give_back(segments);
		if (count++ == 0) {
			first = name;
			posted = where;
		}
	});
	if (count == 0) return;
	const std::string others = count > 1 ? text(" and by %" PRIu64 " others", count - 1) : "";
	findings_.report(Rule::mr_dereg_in_flight, site,
		text("the region with lkey 0x%x is deregistered while it is used by %s%s", lkey, first.c_str(), others.c_str()),
		{{first + " was posted here", posted}, registered_note(lkey)});
}

void Book::deregister_refused(Handle mr, Site site) {
	const std::lock_guard lock(mutex_);
	if (const auto found = regions_.find(mr); found != regions_.end())
		findings_.report(Rule::mw_mr_order, site,
			text("the region with lkey 0x%x stays registered, because a memory window is bound to it",
				found->second.facts.lkey),
			{registered_note(found->second.facts.lkey)});
}

void Book::address_handle_destroyed(Handle ah, Site site) {
	const std::lock_guard lock(mutex_);
	for (const auto& [handle, qp] : queue_pairs_)
		for (const OpenSend& send : qp.sends)
			if (send.address_handle == ah)
				return findings_.report(Rule::ah_destroy_in_flight, site,
					text("the address handle is destroyed while %s on QP 0x%x uses it",
						request_name(send.opcode, send.wr_id).c_str(), qp.facts.qpn),
					{{"the request was posted here", send.caller.site}});
}

bool Book::is_ghost(Handle handle, const char* verb, Site site) {
	const std::lock_guard lock(mutex_);
	const auto found = ghosts_.find(handle);
	if (found == ghosts_.end()) return false;
	findings_.report(Rule::use_after_destroy, site,
		text("%s was called with a %s that was destroyed before, and refused", verb, name_of(found->second.kind)),
		{{text("the %s was destroyed here", name_of(found->second.kind)), found->second.destroyed}});
	return true;
}

void Book::forks(Site site) {
	const std::lock_guard lock(mutex_);
	if (regions_.empty()) return;
	const Region& region = regions_.begin()->second;
	findings_.report(Rule::fork_after_reg, site,
		text("the process forks with %zu registered regions, and has not called ibv_fork_init()", regions_.size()),
		{registered_note(region.facts.lkey)});
}

void Book::finish() {
	const std::lock_guard lock(mutex_);
	if (refused_queue_pair_)
		findings_.report(Rule::cap_over_profile, refused_queue_pair_->second, refused_queue_pair_->first);
	if (refused_extended_)
		findings_.report(Rule::qp_ex_without_fallback, *refused_extended_,
			"ibv_create_qp_ex() is not supported (EOPNOTSUPP), and the program has made no queue pair in another way");
	if (atomic_right_ && !atomics_arrived_ && !has_asked_device())
		findings_.report(Rule::access_atomic_unneeded, *atomic_right_,
			"a region has IBV_ACCESS_REMOTE_ATOMIC, no atomic has come, and the program has not called "
			"ibv_query_device()");
	for (const auto& [handle, qp] : queue_pairs_) report_if_given_up(qp);
	std::map<std::pair<Kind, Site>, std::uint64_t> alive;
	for (const auto& [handle, object] : objects_) {
		++alive[{object.kind, object.made}];
		if (object.refused == 0) continue;
		findings_.report(Rule::pd_destroy_order, object.refused,
			text("the %s was not destroyed, because a %s used it (EBUSY), and it is still there at the end",
				name_of(object.kind), object.user.empty() ? "user" : object.user.c_str()),
			{{text("the %s was made here", name_of(object.kind)), object.made}});
	}
	constexpr std::uint64_t many = 8;
	for (const auto& [key, count] : alive)
		if (count >= many)
			findings_.report(Rule::leak_at_exit, key.second,
				text("%" PRIu64 " objects (%s) that were made here were never destroyed", count, name_of(key.first)));
}

}  // namespace verbena::rules
