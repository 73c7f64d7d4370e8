// SPDX-License-Identifier: Apache-2.0
// Ownership: for which slots a member of a cluster may answer, and until when (decision 50). A slot
// is a share of the keys. The members choose each slot's owner by the list of their names, so all
// that read the same list agree. But they read it at different times, so a server also needs the
// right to rely on what it has read.
//
// A look is one request that renews this server's etcd lease and reads the list of members, in this
// order. From before a look, the server has the right to answer for as long as its lease lasts.
// Another server that sees a later list answers for none of its slots until this right has ended,
// and until a look that began after that has shown that it is still in the list.
//
//     ownership.handle_look(look, now);   // on each look that etcd has answered
//     ownership.handle_time(now);         // about a hundred times a second
//     if (ownership.standing(slot, boot_now()) == Standing::owner) ...   // for each request
//     if (ownership.sweeping()) ...       // drop the items of all slots but keeps()
//
// Threads: any one at a time; no I/O, and time is an argument: that of a clock which goes on while
//   the machine is suspended (boot_now()).
// Invariants: at any time at most one server of a cluster is a slot's `owner`, if the rates of the
//   clocks differ by less than 1 in 1000. From the time when a server becomes the owner of a slot
//   until it is the owner no more, no other server is; and it had no item of the slot before.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>

#include "base/time.h"

namespace verbena::kv {

inline constexpr std::size_t slot_count = 1024;
using SlotSet = std::bitset<slot_count>;

// The position of this server towards a slot.
enum class Standing : std::uint8_t {
	owner,    // it answers
	waiting,  // it does not know whether another server may answer: GETs miss, changes are refused
	other,    // another member has the slot
};

class Ownership {
public:
	struct Look {
		SlotSet assigned;  // by the list of members; none if this server is not in the list
		Nanoseconds asked = 0;  // the time before the request was sent
		// The longest lease of a member, also of one that is gone: the time for which another
		// server may have the right to answer after this look.
		Nanoseconds wait = 0;
	};

	// `lease` is the time for which one look gives the right to answer.
	explicit Ownership(Nanoseconds lease) : right_(lease - margin(lease)) { since_.fill(never); }

	// etcd has answered a look, at `now` or before. Looks are handled in the order of `asked`.
	void handle_look(const Look& look, Nanoseconds now);
	// Ends the right, or the waiting for slots, if it is time. Returns true if this server has
	// become the owner of further slots.
	bool handle_time(Nanoseconds now);

	Standing standing(std::size_t slot, Nanoseconds now) const {
		if (now >= until_) return Standing::waiting;
		return since_[slot] == 0 ? Standing::owner : since_[slot] == never ? Standing::other : Standing::waiting;
	}

	// Items are to be dropped: begin a walk over all of them, drop those whose slot this server
	// does not keep, and call swept() with the number that sweep() had at the begin of the walk.
	// Until then this server becomes the owner of no slot.
	bool sweeping() const { return swept_ != sweep_; }
	std::uint64_t sweep() const { return sweep_; }
	bool keeps(std::size_t slot) const { return since_[slot] == 0; }
	void swept(std::uint64_t number) { swept_ = number; }

	std::size_t owned() const { return owned_; }  // slots
	std::size_t waiting() const { return waiting_; }
	// The number of times that the right ended before the next look, so that everything was
	// dropped.
	std::uint64_t lapses() const { return lapses_; }
	Nanoseconds until() const { return until_; }  // the end of the right; 0: there was none yet

private:
	// Clocks of two servers may differ in rate by 1 in 1000, each way.
	static constexpr Nanoseconds margin(Nanoseconds time) { return time / 256; }
	void lose(std::size_t slot);
	void lapse();

	Nanoseconds right_;
	Nanoseconds until_ = 0, asked_ = 0;  // asked_: of the last look
	// For each slot: 0, this server is the owner; never, another one is; otherwise the time before
	// which no look ends its wait.
	std::array<Nanoseconds, slot_count> since_{};
	std::size_t owned_ = 0, waiting_ = 0;
	std::uint64_t sweep_ = 0, swept_ = 0;
	std::uint64_t lapses_ = 0;
};

}  // namespace verbena::kv
