// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/state/ownership.h"

#include <algorithm>

namespace verbena::kv {

void Ownership::lose(std::size_t slot) {
	if (since_[slot] == never) return;
	--(since_[slot] == 0 ? owned_ : waiting_);
	since_[slot] = never;
}

// Between the end of the right and the next look, another server may have joined, answered and
// left again, without a trace in the list.
void Ownership::lapse() {
	if (owned_ + waiting_ == 0) return;
	++lapses_;
	++sweep_;
	for (std::size_t slot = 0; slot < slot_count; ++slot) lose(slot);
}

// A look that is handled before the right has ended leaves no gap: a server that joined after the
// look before waits at least until the end of this right, so it has not answered yet. If it has
// left again before this look, it will not answer, because handle_time() wants a look after its
// wait.
void Ownership::handle_look(const Look& look, Nanoseconds now) {
	if (now >= until_) lapse();
	const std::size_t owned_before = owned_;
	for (std::size_t slot = 0; slot < slot_count; ++slot) {
		if (!look.assigned[slot]) {
			lose(slot);
		} else if (since_[slot] == never) {
			since_[slot] = now + look.wait + margin(look.wait);
			++waiting_;
		}
	}
	if (owned_ < owned_before) ++sweep_;
	asked_ = std::max(asked_, look.asked);
	until_ = std::max(until_, look.asked + right_);
}

// The wait ends by a look that was asked after it. Since an earlier one this server may have left
// the list, and another one that has never seen it there goes on with a new right. A server that
// has not seen this one in the list by the time of such a look has had no look for the whole wait,
// so its right has ended.
bool Ownership::handle_time(Nanoseconds now) {
	if (now >= until_) {
		lapse();
		return false;
	}
	if (waiting_ == 0 || sweeping()) return false;
	const std::size_t before = owned_;
	for (Nanoseconds& since : since_)
		if (since != never && since != 0 && since <= asked_) {
			since = 0;
			++owned_;
			--waiting_;
		}
	return owned_ > before;
}

}  // namespace verbena::kv
