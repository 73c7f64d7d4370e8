// SPDX-License-Identifier: Apache-2.0
#include "lib/async/selector.h"

#include "lib/async/epoll_selector.h"
#include "lib/async/uring_selector.h"

namespace verbena::async {

ChosenSelector make_selector(SelectorKind wanted) {
	ChosenSelector chosen;
	if (wanted == SelectorKind::uring) {
		if (auto uring = UringSelector::open()) chosen.selector = std::move(*uring);
		else chosen.refusal = uring.error();
	}
	if (!chosen.selector) chosen.selector = std::make_unique<EpollSelector>();
	return chosen;
}

}  // namespace verbena::async
