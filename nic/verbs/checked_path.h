// SPDX-License-Identifier: Apache-2.0
// The data path of a process that is checked: each function calls the one that was in the table
// before, and reports to the book (nic/rules). A process without a checker pays nothing.
//
// A place in a send queue is free when the completion is polled, as on hardware: a post for which
// there is none fails with ENOMEM (ibv_post_send(3)).
//
// Threads: as the functions that they call.
#pragma once

#include "nic/verbs/objects.h"

namespace verbena::verbs {

// Replaces the functions in the tables, if the process is checked. Call it after the other
// decorators: the outermost function knows the place in the program.
void check_data_path(ibv_context_ops&);
void check_extended_post(SoftQp&);
void check_extended_poll(SoftCq&);

// In the child of a fork: another thread may have held the turns.
void renew_turns_after_fork();

}  // namespace verbena::verbs
