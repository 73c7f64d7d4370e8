// SPDX-License-Identifier: Apache-2.0
// Sessions: which identified changes (ChangeId in wire.h) of which client a server has executed. So
// a change that a client sends again, on another connection or to the next process with the same
// --data folder, is executed once (as in RIFL, Lee et al., SOSP 2015).
//
// A session outlives its client's connections by `idle`, and a client sends nothing again after
// resend_max, which is shorter. A session keeps only changes that had an effect: a refused SET, or
// a DEL of a missing key, may be executed again, because its client has not seen the first answer.
// For a change whose answer has a version, it also keeps that.
//
// Threads: any one at a time; no I/O, and time is an argument.
// Lifetime: a ChangeSession is valid between enter() and leave().
// Errors: if sessions without a connection are too many, or have too many ranges together, the
//   oldest ones are forgotten. From then on forgot() is true for each unknown client, whose
//   unanswered changes are then not sent again (attempts.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "lib/async/list.h"
#include "lib/kv/wire.h"

namespace verbena::kv {

// One client's changes at this server.
class ChangeSession : public async::Linked {
public:
	// The executed orders, as ranges: the most that one session has.
	static constexpr std::size_t ranges_max = 4096;
	// The most versions that one session has: those of its latest changes. A client with more
	// unsettled changes than it may have under way does not follow the protocol.
	static constexpr std::size_t versions_max = 4096;

	enum class Fate : std::uint8_t {
		fresh,    // execute it
		done,     // it was executed before and succeeded
		settled,  // its client has said that it is settled, so this is a late copy
		crowded,  // the session cannot hold one more range now
	};
	Fate fate_of(std::uint64_t order) const;
	// Records that this change was executed; its fate was `fresh`. `version` is the one that it has
	// made, if its answer has that; otherwise 0.
	void keep(std::uint64_t order, std::uint64_t version = 0);
	// The version of a change that is done; 0: it is not known.
	std::uint64_t version_of(std::uint64_t order) const;
	// Takes keep() back, unless the change is settled. The latest is undone first.
	void undo(std::uint64_t order);
	// Forgets the changes below this order; later copies of them are refused.
	void settle(std::uint64_t below);

	// The session as bytes, for a journal. read() returns false if the bytes are no session.
	std::vector<std::byte> bytes() const;
	bool read(Bytes bytes);
	std::size_t ranges() const { return ranges_.size(); }
	// The ranges and versions that it has, and for which it has room.
	std::size_t entries() const { return ranges_.size() + versions_.size(); }
	std::size_t room() const { return ranges_.capacity() + versions_.capacity(); }
	std::uint64_t client() const { return client_; }

private:
	friend class Sessions;
	struct Range {
		std::uint64_t first = 0, last = 0;
	};
	struct Version {
		std::uint64_t order = 0, version = 0;
	};
	static_assert(sizeof(Version) == sizeof(Range));
	// In the bytes of a session, a range that cannot be; versions follow it.
	static constexpr std::uint64_t versions_follow = ~std::uint64_t{0};
	static_assert(order_max < versions_follow - 2, "no range looks like the mark, and no sum of an order wraps");

	// The first range that ends at `order` or later.
	std::vector<Range>::const_iterator range_at(std::uint64_t order) const;

	std::uint64_t client_ = 0;
	std::uint64_t settled_ = 0;
	std::vector<Range> ranges_;  // ascending, with gaps between them
	std::vector<Version> versions_;  // by order, ascending
	std::uint32_t connections_ = 0;
	Nanoseconds left_ = 0;  // when the last connection ended
	bool changed_ = false;  // listed in Sessions::changed_
};

class Sessions {
public:
	static constexpr Nanoseconds idle = 300'000'000'000;
	// The most that sessions without a connection may be, and may have together: `ranges` limits
	// ChangeSession::entries().
	struct Limits {
		std::size_t sessions = 65'536, ranges = 262'144;
	};
	// `identity` is Hello::identity.
	explicit Sessions(std::uint64_t identity, const Limits& limits = {65'536, 262'144})
		: identity_(identity), limits_(limits) {}
	std::uint64_t identity() const { return identity_; }

	// True if changes of this client may have been executed and forgotten. Ask before enter().
	bool forgot(std::uint64_t client) const { return forgot_any_ && !sessions_.contains(client); }
	// A connection of this client begins and ends.
	ChangeSession& enter(std::uint64_t client);
	void leave(ChangeSession& session, Nanoseconds now);
	// Forgets sessions that have had no connection for `idle`.
	void expire(Nanoseconds now);

	// Records a change; see ChangeSession::keep().
	void keep(ChangeSession& session, std::uint64_t order, std::uint64_t version = 0);
	// Takes this back; see ChangeSession::undo().
	void undo(std::uint64_t client, std::uint64_t order);
	std::size_t size() const { return sessions_.size(); }
	// The memory of all sessions, in bytes.
	std::size_t bytes() const {
		return sessions_.size() * session_bytes + room_ * sizeof(ChangeSession::Range) +
			changed_.capacity() * sizeof(std::uint64_t);
	}

	// For a journal: passes each session that has changed since the last call of written(), by its
	// client's id and its bytes; no bytes mean that it is forgotten. The id 0 stands for "forgot
	// some".
	void for_each_changed(const std::function<void(std::uint64_t client, Bytes bytes)>& take);
	void written();
	// Restores what for_each_changed() passed. Returns false if the bytes are no session. Then the
	// client is forgotten, and forgot() is true for it and for each other unknown client.
	bool restore(std::uint64_t client, Bytes bytes, Nanoseconds now);

private:
	// A session with its entry in the table and what malloc adds, about.
	static constexpr std::size_t session_bytes = sizeof(ChangeSession) + 80;

	void note(ChangeSession& session);
	void forget(ChangeSession& session);
	void forget_too_early(ChangeSession& session);
	void stop_idling(ChangeSession& session);

	std::uint64_t identity_;
	Limits limits_;
	std::unordered_map<std::uint64_t, std::unique_ptr<ChangeSession>> sessions_;
	async::List<ChangeSession> idle_;  // without a connection, the oldest first
	std::size_t idle_count_ = 0, idle_ranges_ = 0;
	std::size_t room_ = 0;  // the sum of ChangeSession::room()
	std::vector<std::uint64_t> changed_;  // clients for for_each_changed()
	bool forgot_any_ = false;
};

}  // namespace verbena::kv
