// The environment that a result was measured in: CPU, kernel, commit, date. The caller adds the
// device and the command line.
//
// Threads: thread-safe.
#pragma once

#include <string>

namespace verbena::bench {

std::string cpu_name();
std::string kernel_name();
std::string commit();   // the commit of the sources at build time, with "-dirty" if they differed
std::string utc_now();  // 2024-01-31T12:00:00Z

}  // namespace verbena::bench
