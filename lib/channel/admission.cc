// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/admission.h"

#include <netinet/in.h>

#include <cmath>
#include <cstring>
#include <utility>

namespace verbena::channel {
namespace {

// In one `grace`, the number of looks for a member that has become old enough to leave.
constexpr int looks = 4;
// A crowd of one source has this many times the grace against its own members: all of them may be
// slow because they are many.
constexpr Nanoseconds own_factor = 6;
// The time in which the count of a source's successes falls to 1/e.
constexpr double fading = 1e9;

}  // namespace

Source source_of(const sockaddr* address) {
	if (address != nullptr && address->sa_family == AF_INET)
		return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr);
	if (address == nullptr || address->sa_family != AF_INET6) return 0;
	const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
	std::uint32_t last = 0;
	std::memcpy(&last, ip.s6_addr + 12, sizeof last);
	if (IN6_IS_ADDR_V4MAPPED(&ip)) return ntohl(last);
	Source prefix = 0;
	for (int i = 0; i < 8; ++i) prefix = prefix << 8 | ip.s6_addr[i];
	// The prefix 0 holds ::1 only; other prefixes are larger than every IPv4 address.
	return prefix;
}

Admission::Member::Member(Admission& admission, Source source, std::function<void()> evict)
	: admission_(admission), source_(source), evict_(std::move(evict)), since_(monotonic_now()) {
	admission_.add(*this);
}

Admission::~Admission() { loop_.cancel(*this); }

Admission::Member::~Member() {
	if (evicted_) --admission_.leaving_;
	else admission_.remove(*this);
	admission_.wake_next();
}

void Admission::add(Member& member) {
	Group& group = by_source_[member.source_];
	Members& siblings = group.members;
	if (siblings.empty()) group.begun = member.since_;
	else ranks_.erase(rank_of(member.source_, siblings));
	member.in_all_ = all_.insert(all_.end(), &member);
	member.in_source_ = siblings.insert(siblings.end(), &member);
	ranks_.insert(rank_of(member.source_, siblings));
}

void Admission::remove(Member& member) {
	const auto found = by_source_.find(member.source_);
	Members& siblings = found->second.members;
	ranks_.erase(rank_of(member.source_, siblings));
	all_.erase(member.in_all_);
	siblings.erase(member.in_source_);
	if (siblings.empty()) by_source_.erase(found);
	else ranks_.insert(rank_of(member.source_, siblings));
}

void Admission::evict(Member& member) {
	remove(member);
	member.evicted_ = true;
	++leaving_;
	++evictions_;
	member.evict_();
}

bool Admission::evict_for(Source source) {
	if (all_.empty()) return false;
	const Nanoseconds now = monotonic_now();
	for (Member* const each : all_) {
		const Nanoseconds age = now - each->since_;
		if (age <= grace_) break;
		const bool patient =
			each->source_ == source || progresses(by_source_.at(each->source_), grace_, own_factor * grace_);
		if (!patient || age > own_factor * grace_) return evict(*each), true;
	}
	const Group& most = largest();
	const auto own = by_source_.find(source);
	if (most.members.size() < (own == by_source_.end() ? 0 : own->second.members.size()) + 2) return false;
	if (progresses(most, grace_, own_factor * grace_)) return false;
	evict(*most.members.front());
	return true;
}

double Admission::faded_successes(const Group& group, Nanoseconds now) {
	return group.successes * std::exp(-static_cast<double>(now - group.success_at) / fading);
}

bool Admission::progresses(const Group& group, Nanoseconds credit, Nanoseconds patience) {
	const Nanoseconds now = monotonic_now();
	if (now - group.begun < credit) return true;
	const double rate = faded_successes(group, now) / fading;
	return rate * static_cast<double>(patience) > static_cast<double>(group.members.size());
}

bool Admission::evict_unless_progressing(Nanoseconds patience) {
	for (auto rank = ranks_.rbegin(); rank != ranks_.rend(); ++rank) {
		const Group& group = by_source_.at(std::get<2>(*rank));
		if (monotonic_now() - group.members.front()->since_ < grace_) continue;
		if (progresses(group, own_factor * grace_, patience)) continue;
		evict(*group.members.front());
		return true;
	}
	return false;
}

void Admission::note_success(Source source) {
	const auto found = by_source_.find(source);
	if (found == by_source_.end()) return;
	Group& group = found->second;
	const Nanoseconds now = monotonic_now();
	group.successes = faded_successes(group, now) + 1;
	group.success_at = now;
}

async::Task<bool> Admission::until_room(Source source) {
	if (closed_ || (!full() && waiting_ == 0)) co_return !closed_;
	Queue& queue = queues_[source];
	// Ends the queue with its last coroutine, also with one that is destroyed while it waits.
	struct Entry {
		Entry(Admission& of, Source source) : of(of), source(source) {
			++of.queues_.at(source).count;
			++of.waiting_;
		}
		~Entry() {
			--of.waiting_;
			const auto queue = of.queues_.find(source);
			if (--queue->second.count == 0) of.queues_.erase(queue);
		}
		Admission& of;
		Source source;
	} const entry{*this, source};
	if (short_of_places()) evict_for(source);
	schedule_look();
	do {
		co_await async::Park(queue.waiters);
	} while (!closed_ && full());
	co_return !closed_;
}

void Admission::schedule_look() {
	if (!scheduled()) loop_.schedule(*this, monotonic_now() + grace_ / looks);
}

void Admission::expire() {
	if (waiting_ == 0) return;
	schedule_look();
	for (std::size_t i = size(); i < places_; ++i) wake_next();
	for (const auto& [source, queue] : queues_)
		for (std::size_t i = 0; i < queue.count && short_of_places(); ++i)
			if (!evict_for(source)) break;
}

void Admission::wake_next() {
	if (queues_.empty() || full()) return;
	auto next = queues_.upper_bound(last_turn_);
	for (std::size_t i = 0; i < queues_.size(); ++i, ++next) {
		if (next == queues_.end()) next = queues_.begin();
		async::Waiter* const first = next->second.waiters.pop_front();
		if (first == nullptr) continue;
		last_turn_ = next->first;
		return loop_.resume_soon(*first);
	}
}

void Admission::close() {
	closed_ = true;
	for (auto& [source, queue] : queues_) loop_.resume_soon(queue.waiters);
}

}  // namespace verbena::channel
