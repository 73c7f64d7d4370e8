// SPDX-License-Identifier: Apache-2.0
// Admission: decides which of a server's clients may be in their set-up, and which one has to leave
// when there is no room for another.
//
// An acceptor has three: for connections that have not sent their first message yet, for those that
// have sent it and wait for their handshake, each of which costs a descriptor, and for handshakes,
// each of which costs memory and time.
//
// The client that leaves is, in this order,
//
//   1. the oldest that was admitted more than `grace` ago, or if it is of the newcomer's source or
//      of one that makes progress, more than six times `grace` ago;
//   2. the oldest of the source that has the most clients here, if that source has at least two
//      clients more than the source of the newcomer and makes no progress;
//   3. none: the newcomer waits. The sources that wait get their turns in a circle, and the clients
//      of one source in the order in which they came.
//
// So a client that completes its handshake within `grace` is not evicted for one of another source
// that has more, however many stall, and however slowly they send.
//
// A source makes progress while its clients succeed so fast that all of its members would within
// six times `grace`; and in the first `grace` after its first member.
//
// Threads: the loop's thread.
// Lifetime: members, places and waiting coroutines are destroyed before their Admission.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "lib/async/loop.h"
#include "lib/async/socket.h"

namespace verbena::channel {

// A peer that gets a share of its own: an IPv4 address, or the first 64 bits of an IPv6 address,
// because a host usually has all addresses behind these.
using Source = std::uint64_t;
Source source_of(const sockaddr* address);

class Admission final : private async::Timer {
public:
	// `places`: the most members at once. `grace`: see above.
	Admission(async::Loop& loop, std::size_t places, Nanoseconds grace) : loop_(loop), places_(places), grace_(grace) {}
	~Admission();
	Admission(const Admission&) = delete;
	Admission& operator=(const Admission&) = delete;

	// A client that has been admitted, as long as the object exists.
	class Member {
	public:
		// `evict` is called at most once, to make the client's coroutine end soon. It must not
		// destroy the Member itself.
		Member(Admission& admission, Source source, std::function<void()> evict);
		~Member();
		Member(const Member&) = delete;
		Member& operator=(const Member&) = delete;
		// True once `evict` was called.
		bool evicted() const { return evicted_; }

	private:
		friend class Admission;
		Admission& admission_;
		Source source_;
		std::function<void()> evict_;
		Nanoseconds since_;
		bool evicted_ = false;
		std::list<Member*>::iterator in_all_, in_source_;
	};

	std::size_t size() const { return all_.size() + leaving_; }
	bool full() const { return size() >= places_; }
	std::uint64_t evictions() const { return evictions_; }

	// Evicts the member that has to make room for a client of `source`. False: none has to.
	bool evict_for(Source source);
	// Evicts the oldest member of a source, of several the one that has the most. It spares a
	// member that was admitted less than `grace` ago, and a source that makes progress: its first
	// member was admitted less than six times `grace` ago, or at the rate at which its clients
	// succeed now, all members will within `patience`. False: there is no other.
	bool evict_unless_progressing(Nanoseconds patience);
	// A client of this source has completed its handshake.
	void note_success(Source source);
	// Waits until a place may be free for a client of this source, and evicts a member for it if
	// one has to leave. Returns at once if there is room. Afterwards the caller makes a Member
	// without waiting for anything. False: close() was called.
	async::Task<bool> until_room(Source source);
	// Ends all waits.
	void close();

private:
	using Members = std::list<Member*>;
	// The sources, first the one with the most members; of several the one with the oldest member.
	using Rank = std::tuple<std::size_t, Nanoseconds, Source>;
	struct Group {
		Members members;
		Nanoseconds begun = 0;  // the time of its first member
		// The clients of the source that have succeeded; each counts for less as time passes.
		double successes = 0;
		Nanoseconds success_at = 0;  // the time of the last one
	};
	struct Queue {
		async::List<async::Waiter> waiters;
		std::size_t count = 0;  // coroutines in until_room()
	};

	Rank rank_of(Source source, const Members& members) const {
		return {members.size(), never - members.front()->since_, source};
	}
	static double faded_successes(const Group& group, Nanoseconds now);
	// Whether the group's first member was admitted less than `credit` ago, or all of its members
	// will succeed within `patience` at the rate of now.
	static bool progresses(const Group& group, Nanoseconds credit, Nanoseconds patience);
	// The group of the source that has the most members; there must be one.
	const Group& largest() const { return by_source_.at(std::get<2>(*ranks_.rbegin())); }
	// True: a coroutine waits for which neither a free place nor one of a leaving member will do.
	bool short_of_places() const { return all_.size() + waiting_ > places_; }
	void add(Member& member);
	void remove(Member& member);
	void evict(Member& member);
	void wake_next();
	void schedule_look();
	void expire() override;

	async::Loop& loop_;
	std::size_t places_;
	Nanoseconds grace_;
	Members all_;  // in the order of their admission, without those that are evicted
	std::unordered_map<Source, Group> by_source_;
	std::set<Rank> ranks_;
	std::size_t leaving_ = 0;  // members that are evicted, and still exist
	std::size_t waiting_ = 0;  // coroutines in until_room()
	std::map<Source, Queue> queues_;
	Source last_turn_ = 0;  // the source that had the last turn
	std::uint64_t evictions_ = 0;
	bool closed_ = false;
};

}  // namespace verbena::channel
