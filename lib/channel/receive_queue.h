// SPDX-License-Identifier: Apache-2.0
// A receive queue, shared by all connections of a transport or of one connection alone, and the
// bank of credits that its posted units back.
//
// Threads: the loop's thread.
// Owns: with a queue of one connection, the posted units; they go back to the pool with this, since
//   no completion returns them. Units of a shared queue stay posted until the queue is destroyed.
// Errors: the queue has room for every unit of the pool, so a refused post is our own bug (check).
#pragma once

#include <vector>

#include "lib/channel/credits.h"
#include "lib/channel/units.h"

namespace verbena::channel {

class ReceiveQueue {
public:
	// A queue shared by all connections. `posts` counts the calls of ibv_post_*recv.
	ReceiveQueue(UnitPool& pool, std::uint64_t& posts, ibv_srq* shared) : pool_(pool), posts_(posts), shared_(shared) {}
	// The receive queue of one queue pair, which is destroyed before this.
	ReceiveQueue(UnitPool& pool, std::uint64_t& posts, ibv_qp* own) : pool_(pool), posts_(posts), own_(own) {}
	~ReceiveQueue();
	ReceiveQueue(const ReceiveQueue&) = delete;
	ReceiveQueue& operator=(const ReceiveQueue&) = delete;

	CreditBank& bank() { return bank_; }
	// Posts units, linked by `next`; the bank does not count them.
	void post(Unit* list);
	void post_one(Unit* unit) {
		unit->next = nullptr;
		post(unit);
	}
	// Posts up to `wanted` more units of the pool and adds them to the bank. True: at least one. An
	// eighth of the pool is kept from a shared queue, so that there are units to send from.
	bool grow(std::uint32_t wanted);
	// Takes units from the bank. If it has too few, posts at least `grow_by` more first. False: the
	// pool has none.
	bool take(std::uint32_t units, std::uint32_t grow_by) {
		return bank_.take(units) || (grow(std::max(units, grow_by)) && bank_.take(units));
	}
	// A completion has returned this unit: it is not posted any more.
	void handle_arrival(Unit* unit) {
		if (own_ != nullptr) std::erase(posted_, unit);
	}

private:
	UnitPool& pool_;
	std::uint64_t& posts_;
	ibv_srq* shared_ = nullptr;  // either this one
	ibv_qp* own_ = nullptr;  // or that one
	CreditBank bank_;
	std::vector<Unit*> posted_;  // to `own_`, which does not return them when it is destroyed
};

}  // namespace verbena::channel
