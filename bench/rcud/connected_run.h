// How rc_client and rc_server end a measured run without a control connection: the receiver sends its account over the
// connection itself. The sender posts the one receive for it when its own work is complete, so it never mixes with the
// run; the receiver's NIC asks again until then. READs have no such account, because the reader is the one who counts.
#pragma once

#include <functional>

#include "bench/rcud/datagram_run.h"
#include "bench/rcud/endpoint.h"

namespace verbena::rcud {

// Bytes in flight, at most: the server has four windows of receives, for anybody who asks.
inline constexpr std::uint64_t connected_window_max = 64u << 20;
// Empty, or why the server would not serve such a cell.
std::string refusal_of(const Cell& cell);

// Both give up with a Failure on an error completion, when `go_on` is false, and after 10 s.
void send_report(Endpoint& end, const RunReport& report, const std::function<bool()>& go_on);
RunReport receive_report(Endpoint& end, const std::function<bool()>& go_on);

}  // namespace verbena::rcud
