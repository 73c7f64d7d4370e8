// SPDX-License-Identifier: Apache-2.0
// CallTable: the asynchronous calls in flight on one connection of a server, by sequence number.
//
// It is a hash table. Each bucket is a list that links its calls by AsyncCall::next_, so adding a
// call allocates only when the table grows.
//
// Threads: belongs to the connection's I/O thread.
// Owns: nothing; a call removes itself when it is destroyed (ServerConnection::end_call()).
// Invariants: sequence numbers in the table are unique; the caller of add() ensures this.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/rpc/context.h"

namespace verbena::rpc {

class CallTable {
public:
	std::size_t size() const { return size_; }
	bool empty() const { return size_ == 0; }

	void add(AsyncCall& call) {
		if (size_ == first_.size()) grow();
		link(call);
		call.listed_ = true;
		++size_;
	}
	// Does nothing if the call is not in the table.
	void remove(AsyncCall& call) {
		if (!std::exchange(call.listed_, false)) return;
		AsyncCall** at = &first_[place_of(call)];
		while (*at != &call) at = &(*at)->next_;
		*at = call.next_;
		--size_;
	}
	// Returns null if there is no such call.
	AsyncCall* find(std::uint32_t sequence) const {
		AsyncCall* each = first_[sequence & (first_.size() - 1)];
		while (each != nullptr && each->info_.get_request_id() != sequence) each = each->next_;
		return each;
	}
	// Calls `use` for each call. `use` may remove the call that it gets, and no other.
	template <class Use> void for_each(Use use) const {
		for (AsyncCall* each : first_)
			while (each != nullptr) use(*std::exchange(each, each->next_));
	}
	// Removes one call and returns it; returns null if the table is empty.
	AsyncCall* remove_any() {
		for (AsyncCall* each : first_) {
			if (each == nullptr) continue;
			remove(*each);
			return each;
		}
		return nullptr;
	}

private:
	std::size_t place_of(const AsyncCall& call) const { return call.info_.get_request_id() & (first_.size() - 1); }
	void link(AsyncCall& call) { call.next_ = std::exchange(first_[place_of(call)], &call); }
	void grow() {
		std::vector<AsyncCall*> old(first_.size() * 2);
		old.swap(first_);
		for (AsyncCall* each : old)
			while (each != nullptr) link(*std::exchange(each, each->next_));
	}

	// The first call of each bucket, or null. The number of buckets is a power of two, and a call's
	// bucket is its sequence number modulo that number.
	std::vector<AsyncCall*> first_ = std::vector<AsyncCall*>(16);
	std::size_t size_ = 0;
};

}  // namespace verbena::rpc
