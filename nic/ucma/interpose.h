// SPDX-License-Identifier: Apache-2.0
// The redirection of librdmacm's calls of open, fstat, write, close, ibv_create_ah and
// ibv_destroy_qp to the Kernel. It replaces the addresses in librdmacm's global offset table, so
// the calls of the program and of other libraries stay as they are.
//
// Threads: any.
#pragma once

#include "nic/ucma/kernel.h"

namespace verbena::ucma {

// Redirects librdmacm to `kernel` if the return address `caller` lies in librdmacm's code. To be
// called from ibv_get_device_list, which librdmacm calls before it opens any file.
void redirect_if_librdmacm(void* caller, Kernel& kernel);

}  // namespace verbena::ucma
