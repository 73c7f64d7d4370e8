// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/sender_loop.h"

namespace verbena::rcud {

template class SenderOn<Endpoint>;

}  // namespace verbena::rcud
