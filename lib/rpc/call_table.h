// The calls of a server's connection that are in flight, found by their sequence number. It holds nothing of them.
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
	// Nothing, if it is not there.
	void remove(AsyncCall& call) {
		if (!std::exchange(call.listed_, false)) return;
		AsyncCall** at = &first_[place_of(call)];
		while (*at != &call) at = &(*at)->next_;
		*at = call.next_;
		--size_;
	}
	// Null if there is none.
	AsyncCall* find(std::uint32_t sequence) const {
		AsyncCall* each = first_[sequence & (first_.size() - 1)];
		while (each != nullptr && each->info_.get_request_id() != sequence) each = each->next_;
		return each;
	}
	template <class Use> void for_each(Use use) const {
		for (AsyncCall* each : first_)
			while (each != nullptr) use(*std::exchange(each, each->next_));
	}
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

	std::vector<AsyncCall*> first_ =
		std::vector<AsyncCall*>(16);  // of each place: sequence numbers modulo a power of two
	std::size_t size_ = 0;
};

}  // namespace verbena::rpc
