// Channels whose queue pairs are connected by rdma_cm instead of over TCP.
//
// The queue pair is the transport's own; rdma_cm carries its number, its PSN and a few terms
// (setup/parameters.h). That exchange is in clear and authenticates neither end. So the handshake
// of setup/handshake.h follows, as the first messages on the channel itself, in TLS with the same
// trust as over TCP, and carries the parameters that were really used; then come the proofs. Until
// then the channel is not given to the program and takes small messages only (docs/decisions/0017).
//
//     client                                     server
//     REQ: QPN, PSN, terms                    ->
//                                             <- REP: QPN, PSN, terms; or a reject with its reason
//     RTU, handshake                         <-> handshake, over the queue pair
//     proof                                  <-> proof
//     DREQ                                    -> DREP; the queue pairs stay connected
//
// Threads: the transport's loop, which is also that of the events.
#pragma once

#include "lib/channel/connect.h"
#include "lib/channel/managed_events.h"

namespace verbena::channel {

// Connects a channel by rdma_cm. `options.from` may stay null: local ports do not run out here.
async::Task<Connected<std::unique_ptr<RcChannel>>> connect_managed(
	ManagedEvents& events, RcTransport& transport, ConnectOptions options);

// The largest message, in bytes, that an end takes before its peer has proved itself. The
// handshake's messages are smaller.
inline constexpr std::size_t unproven_message_max = 8 << 10;

// The peer's parameters: addresses and numbers as rdma_cm has agreed on them, the rest from its
// terms.
RcEnd managed_end(const lib::ManagedPath& path, const Parameters& terms);
// Why this transport cannot use the path that rdma_cm has chosen; empty if it can.
std::string why_unusable(
	const RcTransport& transport, const std::string& device, std::optional<std::uint32_t> gid_index);
// Whether the parameters that the peer has authenticated are those that connected the queue pair.
bool same_end(const RcEnd& used, const Parameters& said);

}  // namespace verbena::channel
