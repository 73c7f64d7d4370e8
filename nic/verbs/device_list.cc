// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/device_list.h"

#include <algorithm>
#include <cstdlib>

namespace verbena::verbs {
namespace {

// Precedes the pointers that the program sees.
struct Header {
	ibv_device** real;
};

}  // namespace

int device_count(ibv_device* const* list) {
	int count = 0;
	while (list[count]) ++count;
	return count;
}

ibv_device** make_device_list(ibv_device** real, std::span<ibv_device* const> ours) {
	const std::size_t real_count = real ? device_count(real) : 0;
	const std::size_t slot_count = real_count + ours.size() + 1;
	auto* header = static_cast<Header*>(std::calloc(1, sizeof(Header) + slot_count * sizeof(ibv_device*)));
	if (!header) return nullptr;

	header->real = real;
	auto** list = reinterpret_cast<ibv_device**>(header + 1);
	std::copy_n(real, real_count, list);
	std::ranges::copy(ours, list + real_count);
	return list;
}

ibv_device** release_device_list(ibv_device** list) {
	auto* header = reinterpret_cast<Header*>(list) - 1;
	ibv_device** real = header->real;
	std::free(header);
	return real;
}

}  // namespace verbena::verbs
