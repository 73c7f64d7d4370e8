// SPDX-License-Identifier: Apache-2.0
// Defaults for the context's tables of operations, which the inline functions of verbs.h call
// without going through any exported function.
//
// Most of those inline functions test the pointer and return EOPNOTSUPP if it is NULL; some call it
// untested.
#pragma once

#include <infiniband/verbs.h>

namespace verbena::verbs {

// Sets the pointers that are called untested to functions that fail with EOPNOTSUPP, and leaves all
// others as they are (NULL in a zeroed context). Call it on a new context, then set the operations
// that are supported.
void fill_unsupported(verbs_context* context);

}  // namespace verbena::verbs
