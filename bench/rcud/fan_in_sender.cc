// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/fan_in_sender_loop.h"

namespace verbena::rcud {

template class FanInSenderOn<FanInSenderEndpoint>;

}  // namespace verbena::rcud
