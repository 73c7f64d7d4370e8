// Where units are posted to receive frames, and the credits that they back: the shared receive queue of all connections
// of a transport, or the receive queue of one.
#pragma once

#include <vector>

#include "lib/channel/credits.h"
#include "lib/channel/units.h"

namespace verbena::channel {

class ReceiveQueue {
public:
	// Of all.
	ReceiveQueue(UnitPool& pool, std::uint64_t& posts, ibv_srq* shared) : pool_(pool), posts_(posts), shared_(shared) {}
	// Of one. The queue pair goes before it.
	ReceiveQueue(UnitPool& pool, std::uint64_t& posts, ibv_qp* own) : pool_(pool), posts_(posts), own_(own) {}
	~ReceiveQueue();
	ReceiveQueue(const ReceiveQueue&) = delete;
	ReceiveQueue& operator=(const ReceiveQueue&) = delete;

	CreditBank& bank() { return bank_; }
	void post(Unit* list);
	void post_one(Unit* unit) {
		unit->next = nullptr;
		post(unit);
	}
	// Posts more units of the pool; the bank has them. True: at least one.
	bool grow(std::uint32_t wanted);
	// From the bank, which may grow.
	bool take(std::uint32_t units, std::uint32_t grow_by) {
		return bank_.take(units) || (grow(std::max(units, grow_by)) && bank_.take(units));
	}
	// A frame, or a failure, arrived in it.
	void handle_arrival(Unit* unit) {
		if (own_ != nullptr) std::erase(posted_, unit);
	}

private:
	UnitPool& pool_;
	std::uint64_t& posts_;  // counts calls, each with a list
	ibv_srq* shared_ = nullptr;
	ibv_qp* own_ = nullptr;
	CreditBank bank_;
	std::vector<Unit*> posted_;  // to one connection's own: nobody else gives them back
};

}  // namespace verbena::channel
