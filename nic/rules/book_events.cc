// SPDX-License-Identifier: Apache-2.0
// The book's events, and the waits that cannot end.
#include <algorithm>
#include <cinttypes>

#include <unistd.h>

#include "nic/rules/book.h"
#include "nic/rules/names.h"

namespace verbena::rules {
namespace {

// A wait that lasts longer is worth a look.
constexpr Nanoseconds patience = 2'000'000'000;

// `since` may be later than `now`: another thread has read the clock after this one.
bool is_patience_over(Nanoseconds since, Nanoseconds now) { return now >= since + patience; }

}  // namespace

bool Sleeper::is_there() const { return access(text("/proc/self/task/%d", thread).c_str(), F_OK) == 0; }

void Book::completion_queue_made(Handle handle, std::uint32_t entries, Handle channel, Site site) {
	const std::lock_guard lock(mutex_);
	completion_queues_.insert_or_assign(handle, CompletionQueue{.entries = entries, .channel = channel, .made = site});
}

void Book::armed(Handle handle, std::uint32_t produced, Site site) {
	const std::lock_guard lock(mutex_);
	const auto found = completion_queues_.find(handle);
	if (found == completion_queues_.end()) return;
	found->second.armed = true;
	found->second.produced_when_armed = produced;
	found->second.armed_at = site;
}

void Book::waits_for_event(Handle channel, std::uint32_t (*taken)(Handle cq), Site site, Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	sleepers_.insert_or_assign({channel, pthread_self()}, Sleeper{site, now, gettid()});
	for (const auto& [handle, cq] : completion_queues_) {
		if (cq.channel != channel || !cq.armed) continue;
		const auto left = static_cast<std::int32_t>(cq.produced_when_armed - taken(handle));
		if (left <= 0) continue;
		findings_.report(Rule::notify_lost_wakeup, site,
			text("the program waits for an event, although %d completions that came before the queue was armed have "
				 "not been polled, and raise none",
				left),
			{{"the completion queue was armed here", cq.armed_at}, {"the completion queue was made here", cq.made}});
	}
}

void Book::event_fetched(Handle channel, Handle handle) {
	const std::lock_guard lock(mutex_);
	sleepers_.erase({channel, pthread_self()});
	const auto found = completion_queues_.find(handle);
	if (found == completion_queues_.end()) return;
	found->second.armed = false;
	++found->second.fetched;
}

void Book::vector_refused(int vector, int vectors, Site site) {
	findings_.report(Rule::comp_vector, site,
		text("ibv_create_cq() was refused for the completion vector %d, and num_comp_vectors is %d", vector, vectors));
}

void Book::overran(Handle handle) {
	const std::lock_guard lock(mutex_);
	const auto found = completion_queues_.find(handle);
	if (found == completion_queues_.end()) return;
	findings_.report(Rule::cq_overrun, found->second.made,
		text("a completion queue of %u entries has overrun", found->second.entries));
}

void Book::destroys_channel(Handle channel, Site site) {
	const std::lock_guard lock(mutex_);
	for (const auto& [key, sleeper] : sleepers_)
		if (key.first == channel && sleeper.is_there())
			findings_.report(Rule::event_after_destroy_thread, site,
				"the completion channel is destroyed while a thread waits at it",
				{{"the thread waits here", sleeper.site}});
}

void Book::acknowledges(Handle handle, std::uint32_t count, Site site) {
	const std::lock_guard lock(mutex_);
	const auto found = completion_queues_.find(handle);
	if (found == completion_queues_.end()) return;
	CompletionQueue& cq = found->second;
	cq.acknowledged += count;
	if (cq.acknowledged > cq.fetched)
		findings_.report(Rule::ack_wrong_cq, site,
			text(
				"%u events of the completion queue are acknowledged, and %u were fetched", cq.acknowledged, cq.fetched),
			{{"the completion queue was made here", cq.made}});
}

void Book::destroys_with_events(Kind kind, Handle handle, std::uint32_t missing, Site site, Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	destroyers_.insert_or_assign(pthread_self(), Destroyer{kind, handle, missing, site, now});
}

void Book::look(Nanoseconds now) {
	const std::lock_guard lock(mutex_);
	for (auto each = destroyers_.begin(); each != destroyers_.end();) {
		const Destroyer& destroyer = each->second;
		if (!is_patience_over(destroyer.since, now)) {
			++each;
			continue;
		}
		const auto object = objects_.find(destroyer.handle);
		findings_.report(Rule::ack_missing, destroyer.site,
			text("destroying the %s waits for %u events that were fetched and are not acknowledged",
				name_of(destroyer.kind), destroyer.missing),
			{{text("the %s was made here", name_of(destroyer.kind)),
				object == objects_.end() ? 0 : object->second.made}});
		each = destroyers_.erase(each);
	}
	for (auto& [key, sleeper] : sleepers_) {
		if (sleeper.reported || !is_patience_over(sleeper.since, now) || !sleeper.is_there()) continue;
		bool any = false, armed = false;
		for (const auto& [handle, cq] : completion_queues_) {
			if (cq.channel != key.first) continue;
			any = true;
			armed = armed || cq.armed;
		}
		if (!any || armed) continue;
		sleeper.reported = true;
		findings_.report(Rule::notify_not_armed, sleeper.site,
			"the program waits for an event, and no completion queue of the channel is armed");
	}
	for (auto& [handle, cq] : completion_queues_) {
		if (cq.empty_since == 0 || !is_patience_over(cq.empty_since, now)) continue;
		// A queue into which a request can complete may be empty for as long as the peer likes.
		if (cq.open != 0) continue;
		for (auto& [other, qp] : queue_pairs_) {
			if (qp.facts.send_cq != handle && qp.facts.receive_cq != handle) continue;
			if (qp.facts.srq && qp.facts.receive_cq == handle) break;
			if (qp.failed) {
				findings_.report(Rule::post_error_ignored, qp.failed->site,
					text("the post of the request with wr_id %" PRIu64
						 " to QP 0x%x has failed (errno value %d), and the program polls for a completion that never "
						 "comes",
						qp.failed->wr_id, qp.facts.qpn, qp.failed->error),
					{{"the completion queue is polled here", cq.polled_at}});
				qp.failed.reset();
			} else if (qp.facts.send_cq == handle && !qp.sends.empty()) {
				findings_.report(Rule::signaled_flag_missing, qp.sends.back().caller.site,
					text("the program polls for a completion, and none of the %zu requests that are open on QP 0x%x "
						 "is signaled",
						qp.sends.size(), qp.facts.qpn),
					{{"the completion queue is polled here", cq.polled_at}});
			}
		}
	}
}

void Book::begins_extended_post(Handle handle) {
	const std::lock_guard lock(mutex_);
	if (QueuePair* const qp = find_queue_pair(handle)) qp->builder = pthread_self();
}

void Book::ends_extended_post(Handle handle) {
	const std::lock_guard lock(mutex_);
	if (QueuePair* const qp = find_queue_pair(handle)) qp->builder.reset();
}

bool Book::is_in_extended_post(Handle handle, Site site) {
	const std::lock_guard lock(mutex_);
	const QueuePair* const qp = find_queue_pair(handle);
	if (!qp || !qp->builder || !pthread_equal(*qp->builder, pthread_self())) return false;
	findings_.report(Rule::wr_start_nesting, site,
		text("a request was posted to QP 0x%x between ibv_wr_start() and ibv_wr_complete() of the same thread",
			qp->facts.qpn));
	return true;
}

}  // namespace verbena::rules
