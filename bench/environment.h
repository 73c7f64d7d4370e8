// What a result was measured on: CPU, kernel, commit, date. The caller adds the device and the command line.
#pragma once

#include <string>

namespace verbena::bench {

std::string cpu_name();
std::string kernel_name();
std::string commit();  // of the sources at build time, with "-dirty" if they differed
std::string utc_now();

}  // namespace verbena::bench
