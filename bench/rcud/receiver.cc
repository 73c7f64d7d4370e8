#include "bench/rcud/receiver_loop.h"

namespace verbena::rcud {

template class ReceiverOn<Endpoint>;

}  // namespace verbena::rcud
