#include "bench/rcud/fan_in_receiver_loop.h"

namespace verbena::rcud {

template class FanInReceiverOn<FanInReceiverEndpoint>;

}  // namespace verbena::rcud
