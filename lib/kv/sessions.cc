// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/sessions.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace verbena::kv {

std::vector<ChangeSession::Range>::const_iterator ChangeSession::range_at(std::uint64_t order) const {
	return std::ranges::lower_bound(ranges_, order, {}, &Range::last);
}

ChangeSession::Fate ChangeSession::fate_of(std::uint64_t order) const {
	if (order < settled_) return Fate::settled;
	// Nearly every change is newer than all others.
	const bool newest = ranges_.empty() || order > ranges_.back().last;
	if (const auto at = newest ? ranges_.end() : range_at(order); at != ranges_.end() && at->first <= order)
		return Fate::done;
	return ranges_.size() < ranges_max || (newest && ranges_.back().last + 1 == order) ? Fate::fresh : Fate::crowded;
}

void ChangeSession::keep(std::uint64_t order, std::uint64_t version) {
	if (version != 0) {
		if (versions_.size() == versions_max) versions_.erase(versions_.begin());
		versions_.insert(std::ranges::lower_bound(versions_, order, {}, &Version::order), {order, version});
	}
	if (!ranges_.empty() && ranges_.back().last + 1 == order) {
		ranges_.back().last = order;
		return;
	}
	const auto at = ranges_.begin() + (range_at(order) - ranges_.cbegin());
	const bool joins_next = at != ranges_.end() && at->first == order + 1;
	const bool joins_previous = at != ranges_.begin() && (at - 1)->last + 1 == order;
	if (joins_previous && joins_next) {
		(at - 1)->last = at->last;
		ranges_.erase(at);
	} else if (joins_previous) {
		(at - 1)->last = order;
	} else if (joins_next) {
		at->first = order;
	} else {
		ranges_.insert(at, {order, order});
	}
}

std::uint64_t ChangeSession::version_of(std::uint64_t order) const {
	const auto at = std::ranges::lower_bound(versions_, order, {}, &Version::order);
	return at != versions_.end() && at->order == order ? at->version : 0;
}

void ChangeSession::undo(std::uint64_t order) {
	std::erase_if(versions_, [&](const Version& each) { return each.order == order; });
	const auto at = ranges_.begin() + (range_at(order) - ranges_.cbegin());
	if (order < settled_ || at == ranges_.end() || at->first > order) return;
	const Range before{at->first, order - 1};
	at->first = order + 1;
	if (at->first > at->last) {
		*at = before;
		if (before.first > before.last) ranges_.erase(at);
	} else if (before.first <= before.last) {
		ranges_.insert(at, before);
	}
}

void ChangeSession::settle(std::uint64_t below) {
	if (below <= settled_) return;
	settled_ = below;
	if (!versions_.empty())
		versions_.erase(versions_.begin(), std::ranges::lower_bound(versions_, below, {}, &Version::order));
	if (ranges_.empty() || ranges_.front().first >= below) return;
	ranges_.erase(ranges_.begin(), range_at(below));
	if (!ranges_.empty()) ranges_.front().first = std::max(ranges_.front().first, below);
}

std::vector<std::byte> ChangeSession::bytes() const {
	std::vector<std::byte> out;
	append(out, std::as_bytes(std::span(&settled_, 1)));
	append(out, std::as_bytes(std::span(ranges_)));
	if (versions_.empty()) return out;
	const Range mark{versions_follow, versions_follow};
	append(out, std::as_bytes(std::span(&mark, 1)));
	append(out, std::as_bytes(std::span(versions_)));
	return out;
}

bool ChangeSession::read(Bytes bytes) {
	if (bytes.size() < sizeof settled_ || (bytes.size() - sizeof settled_) % sizeof(Range) != 0) return false;
	std::memcpy(&settled_, bytes.data(), sizeof settled_);
	const Bytes rest = bytes.subspan(sizeof settled_);
	ranges_.resize(rest.size() / sizeof(Range));
	if (!rest.empty()) std::memcpy(ranges_.data(), rest.data(), rest.size());
	const auto mark = std::ranges::find(ranges_, versions_follow, &Range::first);
	versions_.clear();
	if (mark != ranges_.end())
		for (auto each = mark + 1; each != ranges_.end(); ++each) {
			if (!versions_.empty() && each->first <= versions_.back().order) return false;
			versions_.push_back({.order = each->first, .version = each->last});
		}
	ranges_.erase(mark, ranges_.end());
	std::uint64_t after = settled_;  // the least order that the next range may begin with
	for (const Range& range : ranges_) {
		if (range.first < after || range.last < range.first || range.last > order_max) return false;
		after = range.last + 2;
	}
	return ranges_.size() <= ranges_max && versions_.size() <= versions_max;
}

ChangeSession& Sessions::enter(std::uint64_t client) {
	std::unique_ptr<ChangeSession>& session = sessions_[client];
	if (!session) {
		session = std::make_unique<ChangeSession>();
		session->client_ = client;
	}
	stop_idling(*session);
	++session->connections_;
	return *session;
}

void Sessions::leave(ChangeSession& session, Nanoseconds now) {
	check(session.connections_ > 0, "a session is left as often as it is entered");
	if (--session.connections_ > 0) return;
	if (session.ranges_.empty()) return forget(session);
	session.left_ = now;
	idle_.push_back(session);
	++idle_count_;
	idle_ranges_ += session.entries();
	while (idle_count_ > limits_.sessions || idle_ranges_ > limits_.ranges) forget_too_early(idle_.front());
}

void Sessions::stop_idling(ChangeSession& session) {
	if (!session.linked()) return;
	session.unlink();
	--idle_count_;
	idle_ranges_ -= session.entries();
}

void Sessions::expire(Nanoseconds now) {
	while (!idle_.empty() && idle_.front().left_ + idle <= now) forget(idle_.front());
}

void Sessions::keep(ChangeSession& session, std::uint64_t order, std::uint64_t version) {
	room_ -= session.room();
	session.keep(order, version);
	room_ += session.room();
	note(session);
}

void Sessions::undo(std::uint64_t client, std::uint64_t order) {
	const auto found = sessions_.find(client);
	if (found == sessions_.end()) return;
	ChangeSession& session = *found->second;
	const bool idle = session.linked();
	if (idle) idle_ranges_ -= session.entries();
	room_ -= session.room();
	session.undo(order);
	room_ += session.room();
	if (idle) idle_ranges_ += session.entries();
	note(session);
}

void Sessions::note(ChangeSession& session) {
	if (!std::exchange(session.changed_, true)) changed_.push_back(session.client_);
}

void Sessions::forget(ChangeSession& session) {
	const std::uint64_t client = session.client_;
	stop_idling(session);
	note(session);
	room_ -= session.room();
	sessions_.erase(client);
}

// Forgets a session whose client may still send a change again.
void Sessions::forget_too_early(ChangeSession& session) {
	if (!std::exchange(forgot_any_, true)) changed_.push_back(0);
	forget(session);
}

void Sessions::for_each_changed(const std::function<void(std::uint64_t, Bytes)>& take) {
	for (const std::uint64_t client : changed_) {
		const auto found = sessions_.find(client);
		const std::byte some{1};
		if (found != sessions_.end()) take(client, found->second->bytes());
		else take(client, client == 0 ? Bytes(&some, 1) : Bytes());
	}
}

void Sessions::written() {
	for (const std::uint64_t client : changed_)
		if (const auto found = sessions_.find(client); found != sessions_.end()) found->second->changed_ = false;
	changed_.clear();
}

bool Sessions::restore(std::uint64_t client, Bytes bytes, Nanoseconds now) {
	if (client == 0) return forgot_any_ = true;
	ChangeSession& session = enter(client);
	room_ -= session.room();
	const bool good = session.read(bytes);
	room_ += session.room();
	if (good) leave(session, now);
	else forget_too_early(session);
	return good;
}

}  // namespace verbena::kv
