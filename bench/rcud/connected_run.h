// SPDX-License-Identifier: Apache-2.0
// The end of a measured run between rc_client and rc_server, which have no control connection: the
// receiver sends its report over the measured connection.
//
// The sender posts the one receive for the report after its own work is complete, so the report
// never mixes with the run; until then the receiver's NIC gets RNR NAKs and retries. READs have no
// report, because the reader counts.
//
// Threads: the thread that owns the endpoint.
// Errors: a Failure on an error completion, when `go_on` returns false, and after 10 s.
#pragma once

#include <functional>

#include "bench/rcud/datagram_run.h"
#include "bench/rcud/endpoint.h"

namespace verbena::rcud {

// Bytes in flight, at most. The server allocates four windows of receives for each client, so an
// unauthenticated client must not choose the size freely.
inline constexpr std::uint64_t connected_window_max = 64u << 20;
// The reason why the server refuses such a cell; empty if it does not.
std::string refusal_of(const Cell& cell);

void send_report(Endpoint& end, const RunReport& report, const std::function<bool()>& go_on);
RunReport receive_report(Endpoint& end, const std::function<bool()>& go_on);

}  // namespace verbena::rcud
