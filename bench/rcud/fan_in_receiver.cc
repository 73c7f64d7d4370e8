// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/fan_in_receiver_loop.h"

namespace verbena::rcud {

template class FanInReceiverOn<FanInReceiverEndpoint>;

}  // namespace verbena::rcud
