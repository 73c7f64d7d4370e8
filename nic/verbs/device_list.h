// What ibv_get_device_list returns: the real devices, then ours, then NULL.
//
// The real library counts references by its own list, so that list is kept, in a slot in front of ours, until
// ibv_free_device_list: the real devices live exactly as long as they would without us. Any thread may call; nothing is
// shared.
#pragma once

#include <span>

#include <infiniband/verbs.h>

namespace verbena::verbs {

// `real` is NULL-terminated, or NULL when there are no real devices; the result owns it. NULL when memory is out.
ibv_device** make_device_list(ibv_device** real, std::span<ibv_device* const> ours);

// Frees the list and gives back the real one, for its maker to free, or NULL.
ibv_device** release_device_list(ibv_device** list);

int device_count(ibv_device* const* list);

}  // namespace verbena::verbs
