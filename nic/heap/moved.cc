// SPDX-License-Identifier: Apache-2.0
#include "nic/heap/moved.h"

#include <algorithm>

namespace verbena::heap {

void Moved::add(Pages pages, const File& file) {
	remove(pages);
	entries_[count_++] = {pages, file, 0};
}

void Moved::remove(Pages gone) {
	for (std::size_t i = 0; i < count_;) {
		const PlacedPages entry = entries_[i];
		const Pages pages = entry.pages;
		if (gone.first >= pages.end() || pages.first >= gone.end()) {
			++i;
			continue;
		}
		entries_[i] = entries_[--count_];
		// The pieces that remain do not overlap `gone`, so the loop passes over them.
		if (pages.first < gone.first)
			entries_[count_++] = {{pages.first, gone.first - pages.first}, entry.file, entry.offset};
		if (gone.end() < pages.end())
			entries_[count_++] = {{gone.end(), pages.end() - gone.end()}, entry.file, entry.offset_of(gone.end())};
		close_if_unused(entry.file);
	}
}

const PlacedPages* Moved::find(Pages pages) const {
	const PlacedPages* lowest = nullptr;
	for (const PlacedPages& entry : entries())
		if (entry.pages.first < pages.end() && pages.first < entry.pages.end())
			if (lowest == nullptr || entry.pages.first < lowest->pages.first) lowest = &entry;
	return lowest;
}

void Moved::close_all() {
	while (count_ > 0) {
		const File file = entries_[--count_].file;
		close_if_unused(file);
	}
}

void Moved::close_if_unused(const File& file) {
	const bool used =
		std::ranges::any_of(entries(), [&](const PlacedPages& entry) { return entry.file.inode == file.inode; });
	if (!used) close_file(file);
}

}  // namespace verbena::heap
