// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/receiver_loop.h"

namespace verbena::rcud {

template class ReceiverOn<Endpoint>;

}  // namespace verbena::rcud
