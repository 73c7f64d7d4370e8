// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/progress_page.h"

#include <unistd.h>

#include <cerrno>

namespace verbena::engine {

std::expected<SealedMemory<ProgressPage>, int> create_progress_page() {
	auto page = create_sealed<ProgressPage>("verbena-progress", Writers::this_mapping, sizeof(ProgressPage));
	if (page) {
		page->object->magic = ProgressPage::magic_value;
		page->object->version = ProgressPage::version_value;
		page->object->pid = getpid();
		page->object->moved_to.store(-1, std::memory_order_relaxed);
	}
	return page;
}

std::expected<Mapped<const ProgressPage>, int> map_progress_page(int fd, Seals seals) {
	auto page = map_sealed<const ProgressPage>(fd, 0, seals);
	if (page && ((*page)->magic != ProgressPage::magic_value || (*page)->version != ProgressPage::version_value))
		return std::unexpected(EPROTO);
	return page;
}

}  // namespace verbena::engine
