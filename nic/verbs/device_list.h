// SPDX-License-Identifier: Apache-2.0
// The list that ibv_get_device_list returns: the real devices, then ours, then NULL.
//
// Threads: any; the functions share no state.
// Lifetime: the real library counts references by its own list, so that list is kept, in a slot in
//   front of ours, until ibv_free_device_list. Real devices live exactly as long as without us.
#pragma once

#include <span>

#include <infiniband/verbs.h>

namespace verbena::verbs {

// `real` is NULL-terminated, or NULL if there are no real devices. The result owns it. Returns
// NULL, and owns nothing, if there is no memory.
ibv_device** make_device_list(ibv_device** real, std::span<ibv_device* const> ours);

// Frees the list and returns the real library's list, for that library to free, or NULL.
ibv_device** release_device_list(ibv_device** list);

// The devices in front of the terminating NULL.
int device_count(ibv_device* const* list);

}  // namespace verbena::verbs
