// SPDX-License-Identifier: Apache-2.0
// Member: the part of a server that makes it a member of a cluster. It knows for which keys the
// server may answer now (state/ownership.h), and drops the keys of slots that it has lost.
//
// A cluster is a cache (decision 50): a key whose slot moves to another member is missing until it
// is set again, and a member that has not reached etcd for the time of its lease loses all keys.
//
// Threads: one, that of the store's loop.
// Lifetime: dies before the store.
#pragma once

#include <string>

#include "lib/discovery/members.h"
#include "lib/kv/state/ownership.h"
#include "lib/kv/store.h"

namespace verbena::kv {

struct MemberFacts {
	// Those that it owns, and those that it will own when it has waited.
	std::uint64_t slots = 0, slots_waiting = 0;
	std::uint64_t looks = 0;  // at the members, that etcd has answered
	std::uint64_t lapses = 0;  // Ownership::lapses()
	std::uint64_t dropped = 0;  // keys of slots that were lost
	bool valid = false;  // it has the right to answer now
};

class Member {
public:
	// `lease_s` is the duration of the lease of its key in etcd, in seconds.
	Member(Store& store, std::uint32_t lease_s) : store_(store), lease_s_max_(lease_s), ownership_(seconds(lease_s)) {}

	// The name under which clients know this server.
	void begin(std::string name) { name_ = std::move(name); }
	// etcd has answered a look. `now` is boot_now().
	void handle_look(const discovery::Look& look, Nanoseconds now);
	// Call it about a hundred times a second.
	void handle_time(Nanoseconds now);
	// Drops some of the keys that are to be dropped. Returns true if there may be more.
	bool drop_some();

	// The position towards a key, at the instant of the call.
	Standing standing(std::string_view key) const;
	MemberFacts facts() const;

private:
	static constexpr Nanoseconds seconds(std::uint32_t number) { return Nanoseconds{number} * 1'000'000'000; }

	Store& store_;
	std::string name_;
	std::uint32_t lease_s_max_;  // the longest lease that this server has seen
	Ownership ownership_;
	// The walk that drops keys: Ownership::sweep() at its begin, and its position.
	bool walking_ = false;
	std::uint64_t walk_number_ = 0;
	ScanCursor walk_;
	std::uint64_t looks_ = 0, dropped_ = 0;
};

}  // namespace verbena::kv
