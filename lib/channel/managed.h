// SPDX-License-Identifier: Apache-2.0
// Channels whose queue pairs are connected by rdma_cm instead of over TCP.
//
// The queue pair is the transport's own; rdma_cm carries its number, its PSN and a few terms
// (setup/parameters.h). That exchange is in clear and authenticates neither end. So the handshake
// of setup/handshake.h follows as the first messages on the channel itself, with the same
// Protection as over TCP. It carries the parameters with which the queue pairs were connected, and
// each end compares them with those of rdma_cm; then come the proofs. Until the proofs are checked,
// the program does not get the channel, and the channel takes small messages only
// (docs/decisions/0017).
//
//     client                                     server
//     REQ: QPN, PSN, terms                    ->
//                                             <- REP: QPN, PSN, terms; or a reject with its reason
//     RTU, handshake                         <-> handshake, over the queue pair
//     proof                                  <-> proof
//     DREQ                                    -> DREP; the queue pairs stay connected
//
// Threads: connect_managed() runs on the transport's loop, which must also be the loop of `events`.
// Errors: as in connect.h.
#pragma once

#include "lib/channel/connect.h"
#include "lib/channel/managed_events.h"

namespace verbena::channel {

// Connects a channel by rdma_cm.
async::Task<Connected<std::unique_ptr<RcChannel>>> connect_managed(
	ManagedEvents& events, RcTransport& transport, ConnectOptions options);

// The largest message, in bytes, that an end takes before its peer has proved itself. The
// handshake's messages are smaller.
inline constexpr std::size_t unproven_message_max = 8 << 10;

// Returns the peer's parameters: those that `path` has from rdma_cm, and the others from the peer's
// `terms`.
RcEnd managed_end(const lib::ManagedPath& path, const Parameters& terms);
// Returns the reason why this transport cannot use the device and GID that rdma_cm has chosen;
// empty if it can.
std::string why_unusable(
	const RcTransport& transport, const std::string& device, std::optional<std::uint32_t> gid_index);
// Returns whether `said`, the parameters that the peer has sent in the handshake, are `used`, those
// with which the queue pair was connected.
bool same_end(const RcEnd& used, const Parameters& said);

}  // namespace verbena::channel
