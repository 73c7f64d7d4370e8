// How librdmacm comes to speak to the Kernel: its own calls of open, fstat, write, close and ibv_create_ah are
// redirected, by the slots of its global offset table. The program's calls, and everybody else's, stay as they are.
#pragma once

#include "nic/ucma/kernel.h"

namespace verbena::ucma {

// librdmacm asks for the devices before it opens anything. If `caller` (a return address) lies in it, it is redirected
// to `kernel`.
void redirect_if_librdmacm(void* caller, Kernel& kernel);

}  // namespace verbena::ucma
