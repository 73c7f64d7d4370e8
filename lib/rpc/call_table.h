// SPDX-License-Identifier: Apache-2.0
// CallTable: the asynchronous calls in flight on one connection of a server, by sequence number.
//
// It is a hash table. Each bucket is a list that links its calls by Call::next_, so adding a call
// allocates only when the table grows. The client chooses the sequence numbers, but not the
// buckets: these depend on a random number that it does not know. So it cannot put its calls into
// one bucket.
//
// Threads: belongs to the connection's I/O thread.
// Owns: nothing; a call removes itself when it is destroyed (ServerConnection::end_call()).
// Invariants: sequence numbers in the table are unique; the caller of add() ensures this.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/random.h"

namespace verbena::rpc {

// `Call` is AsyncCall. The table needs its method sequence(), and `next_` and `listed_` for itself.
template <class Call> class CallTable {
public:
	std::size_t size() const { return size_; }
	bool empty() const { return size_ == 0; }

	void add(Call& call) {
		if (size_ == first_.size()) grow();
		link(call);
		call.listed_ = true;
		++size_;
	}
	// Does nothing if the call is not in the table.
	void remove(Call& call) {
		if (!std::exchange(call.listed_, false)) return;
		Call** at = &first_[place_of(call.sequence())];
		while (*at != &call) at = &(*at)->next_;
		*at = call.next_;
		--size_;
	}
	// Returns null if there is no such call.
	Call* find(std::uint32_t sequence) const {
		Call* each = first_[place_of(sequence)];
		while (each != nullptr && each->sequence() != sequence) each = each->next_;
		return each;
	}
	// Calls `use` for each call. `use` may remove the call that it gets, and no other.
	template <class Use> void for_each(Use use) const {
		for (Call* each : first_)
			while (each != nullptr) use(*std::exchange(each, each->next_));
	}
	// Removes one call and returns it; returns null if the table is empty.
	Call* remove_any() {
		for (Call* each : first_) {
			if (each == nullptr) continue;
			remove(*each);
			return each;
		}
		return nullptr;
	}

private:
	// A multiplication by a secret number would not do: a client that measures which of its numbers
	// share a bucket could compute the secret from a few of them.
	std::size_t place_of(std::uint32_t sequence) const {
		std::uint64_t state = secret_ + sequence;
		return split_mix(state) & (first_.size() - 1);
	}
	void link(Call& call) { call.next_ = std::exchange(first_[place_of(call.sequence())], &call); }
	void grow() {
		std::vector<Call*> old(first_.size() * 2);
		old.swap(first_);
		for (Call* each : old)
			while (each != nullptr) link(*std::exchange(each, each->next_));
	}

	std::uint64_t secret_ = secure_random<std::uint64_t>();
	// The first call of each bucket, or null. The number of buckets is a power of two.
	std::vector<Call*> first_ = std::vector<Call*>(16);
	std::size_t size_ = 0;
};

}  // namespace verbena::rpc
