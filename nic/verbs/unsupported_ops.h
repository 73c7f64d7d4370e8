// The operations that programs reach without any exported function: verbs.h is full of inline functions that jump
// through tables in the context.
//
// Most inlines test the pointer and answer EOPNOTSUPP by themselves when it is NULL; some jump unasked.
// `fill_unsupported` gives the latter a function that answers EOPNOTSUPP, and leaves every other pointer as it is
// (NULL, in a context fresh from calloc). Call it on a new context, then set the operations that are supported.
#pragma once

#include <infiniband/verbs.h>

namespace verbena::verbs {

void fill_unsupported(verbs_context* context);

}  // namespace verbena::verbs
