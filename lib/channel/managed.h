// Channels whose queue pairs are connected by rdma_cm instead of over TCP. The queue pair is the transport's own;
// rdma_cm carries its number, its PSN and a few terms (setup/parameters.h), all in clear, and authenticates nobody. So
// the handshake of setup/handshake.h follows as the first messages on the channel itself, in TLS by the same trust,
// with the parameters that were really used; then the proofs, as over TCP. A channel that was not proved so is not
// given out, and takes only small messages meanwhile.
//
//     client                                        server
//     REQ: QPN, PSN, terms                    ->
//                                             <-    REP: QPN, PSN, terms      or a reject, with its reason
//     RTU, handshake                         <->    handshake, over the queue pair
//     proof                                  <->    proof
//     DREQ                                    ->    DREP: the connection manager has done its part
#pragma once

#include "lib/channel/connect.h"
#include "lib/channel/managed_events.h"

namespace verbena::channel {

// On the transport's loop, which is that of the events too. `options.from` is not needed: rdma_cm has no ports to run
// out of.
async::Task<Connected<std::unique_ptr<RcChannel>>> connect_managed(
	ManagedEvents& events, RcTransport& transport, ConnectOptions options);

// The largest message of a peer that has not proved itself: TLS records come in smaller ones.
inline constexpr std::size_t unproven_message_max = 8 << 10;

// What the peer of such a connection is: by the managers' agreement, and by its own terms.
RcEnd managed_end(const lib::ManagedPath& path, const Parameters& terms);
// Why this transport cannot be on that path; empty if it can.
std::string unfit(const RcTransport& transport, const std::string& device, std::optional<std::uint32_t> gid_index);
// Whether what the peer says, authenticated, is what the queue pair was connected by.
bool same_end(const RcEnd& used, const Parameters& said);

}  // namespace verbena::channel
