// SPDX-License-Identifier: Apache-2.0
// Changes: executes SET and DEL, also those that expect a version. A change is judged when it
// arrives, waits in the store's window until the journal has it, and then becomes visible and is
// answered. Without a journal a change is visible and answered at once.
//
// The end of a version that has one is a change too, which has no asker. From that time on, also
// before this change is made, the key counts as missing.
//
// All changes of one turn of the loop are one transaction of the journal. If that fails, they are
// undone, and answered by Status::disk; the next turn tries again.
//
// A change with an id is executed once, however often it arrives (sessions.h). A copy of a change
// that waits is answered when that is.
//
// Threads: one, that of the loop.
// Lifetime: dies before the loop, the store, the sessions and the journal. Each Asker calls
//   forget() before it dies.
// Invariants: no answer leaves that depends on a change which is not held. No change is executed
//   unless this server is the owner of its key at that instant.
#pragma once

#include "base/duration_buckets.h"
#include "lib/async/loop.h"
#include "lib/kv/journal.h"
#include "lib/kv/member.h"
#include "lib/kv/sessions.h"
#include "lib/kv/store.h"

namespace verbena::kv {

// Totals of the journal's transactions.
struct CommitCounters {
	DurationBuckets durations;  // those of failed ones, too
	std::uint64_t failed = 0;  // transactions that wrote nothing
	std::uint64_t changes = 0;  // changes, and answers that waited for them, in all others
};

class Changes final : public async::TurnEnd {
public:
	// The most that waits in the window. Then its changes are written without waiting for the end
	// of the turn. One value may be longer.
	static constexpr std::size_t waiting_max = 4096;  // changes, and answers that depend on them
	static constexpr std::size_t waiting_bytes_max = 64 << 20;
	// The most versions that one call of expire() looks at.
	static constexpr std::size_t expired_at_once = 512;

	// A part of a request which it keeps while its value is under way.
	struct Terms {
		std::uint64_t order = 0;  // ChangeId::order; 0: the change has no id
		std::uint64_t expected = any_version;  // Request::expected
		bool versioned = false;  // Request::versioned
		std::uint32_t ttl_ms = 0;  // Request::ttl_ms

		Life life() const { return ttl_ms == 0 ? Life::endless : Life::limited; }
	};
	struct Request {
		Asker& asker;
		std::uint32_t number = 0;  // RequestHeader::number
		ChangeSession* session = nullptr;  // null: the client has no id
		Terms terms{};
	};

	// `journal` is null if nothing is durable; `member`, if the server is alone.
	Changes(async::Loop& loop, Store& store, Sessions& sessions, Journal* journal, const Member* member = nullptr)
		: loop_(loop), store_(store), sessions_(sessions), journal_(journal), member_(member) {
		store_.announce(loop.now());
	}

	// Each of these is answered by Asker::decided(), at once or later.
	void set(const Request& request, std::string_view key, Bytes value);
	// `value` is of Store::take(), with Terms::life(); its bytes must not change any more.
	void set(const Request& request, Value value);
	void remove(const Request& request, std::string_view key);
	// Answers a change that must not be executed: it was executed before, its key is not this
	// server's, or its key has another version than expected. Returns false if it must be executed.
	bool answer_known(const Request& request, std::string_view key);

	// The answer to a change that the store has just refused.
	Status refusal() const { return store_.refused_for_now() ? Status::busy : Status::full; }
	// The asker hears nothing more. Its changes go on.
	void forget(const Asker& asker);
	// Decides all changes that wait.
	void commit();
	// Removes versions whose end has come. Returns true if there may be more of them.
	bool expire();
	// The position of this server towards the key.
	Standing standing(std::string_view key) const {
		return member_ == nullptr ? Standing::owner : member_->standing(key);
	}
	bool of_cluster() const { return member_ != nullptr; }
	// Changes that were executed before and arrived again.
	std::uint64_t repeated() const { return repeated_; }
	const CommitCounters& commits() const { return commits_; }

	// TurnEnd
	void turn_ends() override { commit(); }

private:
	static Ticket ticket_of(const Request& request);
	void keep(const Request& request);
	void wait();
	bool write();
	void answer(const Request& request, Status status, bool waits, std::uint64_t version = 0);
	static void answer_now(const Request& request, Status status, std::uint64_t version = 0);
	void store(const Request& request, Value value);

	async::Loop& loop_;
	Store& store_;
	Sessions& sessions_;
	Journal* journal_;
	const Member* member_;
	std::uint64_t repeated_ = 0;
	CommitCounters commits_;
};

}  // namespace verbena::kv
