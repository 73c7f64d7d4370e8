// SPDX-License-Identifier: Apache-2.0
// A client of the key-value store, for coroutines in C++23. It is installed as verbena/kv_client.h,
// and a program includes this header alone (docs/kv.md).
//
//     Session   the loop and the transport of one thread       lib/kv/session.h
//     Router    the client of one server or several            lib/kv/router.h
//     Result    a value or an Error, and Fetched               lib/kv/call.h
//     Scan      a walk over the keys                           lib/kv/scan.h
//     Watch     the events of a key or of a prefix             lib/kv/watch.h
//     Loop      runs the coroutines                            lib/async/loop.h
//
// Threads: one for each Session. Threads that each have one share nothing.
// Errors: opening returns one sentence; an operation returns an std::expected with an Error.
#pragma once

#include "lib/kv/scan.h"
#include "lib/kv/watch.h"
