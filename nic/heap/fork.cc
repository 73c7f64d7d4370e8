// The heap and fork(2).
#include "nic/heap/heap.h"

namespace verbena::heap {

void watch_forks() {}

}  // namespace verbena::heap
