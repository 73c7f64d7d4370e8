// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/windows.h"

#include "lib/channel/direct.h"

namespace verbena::channel {

void WindowTable::end_lease(std::uint32_t index) {
	MemoryWindow& window = windows_[index];
	window.leased = false;
	if (window.owner != nullptr) window.owner->end(index);
	else give_back(index);
}

}  // namespace verbena::channel
