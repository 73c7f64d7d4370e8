// SPDX-License-Identifier: Apache-2.0
// The data path of a program with the thread sanitizer (nic/rules/thread_sanitizer.h): what a
// thread did before a post has happened before what another one does after it has polled the
// completion of that request, or of the message at the other end, if that is in this process.
//
// Each function orders, and calls the one that was in the table before. A program without that
// sanitizer pays nothing.
//
// Threads: as the functions that they decorate.
#pragma once

#include "nic/verbs/objects.h"

namespace verbena::verbs {

// Replaces the functions in the tables, if the program has the thread sanitizer. Call it after
// those of a trace, which call the functions of objects.h and not those in the table.
void order_data_path(ibv_context_ops&);
void order_extended_post(SoftQp&);
void order_extended_poll(SoftCq&);

}  // namespace verbena::verbs
