// SPDX-License-Identifier: Apache-2.0
// The environment that a result was measured in: CPU, kernel, commit, date. The experiment adds the
// device and its settings.
//
// Threads: thread-safe.
#pragma once

#include <initializer_list>
#include <span>
#include <string>

#include "bench/table/row.h"

namespace verbena::bench {

std::string cpu_name();
std::string kernel_name();
std::string commit();   // the commit of the sources at build time, with "-dirty" if they differed
std::string utc_now();  // 2024-01-31T12:00:00Z

// cpu, cores, kernel, commit, date and command. `pinned` says to which cores the processes are
// pinned: "0 and 1"; empty: to none.
Environment machine(const std::string& command_line, const std::string& pinned = "");

// The ends of a link, as its text goes on: ", two processes on one host" if `peer_host` is empty.
std::string between(const std::string& peer_host);

// core_to_core_ns: the median of these numbers in all repetitions of the rows. Empty if there are
// none.
std::string core_to_core_ns(std::span<const Json> rows, std::initializer_list<const char*> names);

}  // namespace verbena::bench
