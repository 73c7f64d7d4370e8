// SPDX-License-Identifier: Apache-2.0
// The context that a fork's child inherited: its engine and queues belong to the parent, so the
// data path must not use them.
//
// Threads: fill_dead() in the child of a fork, before the child has a second thread.
// Errors: the functions of such a context fail with EIO.
#pragma once

#include <infiniband/verbs.h>

namespace verbena::verbs {

// Replaces the data path of a context that a fork's child inherited by functions that fail with
// EIO.
void fill_dead(verbs_context&);

}  // namespace verbena::verbs
