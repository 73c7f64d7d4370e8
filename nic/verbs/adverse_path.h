// SPDX-License-Identifier: Apache-2.0
// The data path under `verbena run --adversary` (nic/adversary): decorators of the functions of
// provider.h, in the tables of the contexts, queue pairs and completion queues. Without the option
// each function here does nothing, and the tables stay as they are.
//
// Threads: as the functions that they decorate.
// Errors: a text with a mistake is named on standard error, and EINVAL keeps the NIC from starting.
#pragma once

#include <expected>

#include "nic/verbs/objects.h"

namespace verbena::verbs {

// Reads VERBENA_ADVERSARY. True: the NIC is to be unkind.
std::expected<bool, int> read_adversary();
bool is_adverse();
// After the engine has started, and its trace has begun.
void begin_adversary(engine::Engine&);
// The process ends: nothing is held back any more. Throws as Engine::leave_behind_nothing().
void end_adversary();

// True: the queue's event comes later, by itself. Called under the engine's lock, when an event is
// to go into the queue of its channel.
bool delays_event(SoftCq&) noexcept;
// The queue is about to be destroyed: its event does not come any more.
void forget_event(const SoftCq&);
// Before a verb that may be slow.
void linger() noexcept;

// Each decorates what is in the table now, so they are called after those of a trace.
void adverse_data_path(ibv_context_ops&);
void adverse_extended_post(SoftQp&);
void adverse_extended_poll(SoftCq&);

}  // namespace verbena::verbs
