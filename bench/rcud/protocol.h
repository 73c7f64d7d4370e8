// SPDX-License-Identifier: Apache-2.0
// The protocol between the client (the sender) and the server (the receiver) of a measurement, over
// one control connection (control.h). Each has one open device; each repetition of a cell has new
// endpoints at both ends.
//
//     client                            server
//     hello {version}               ->
//                                   <-  hello {version, device, software, gid, mtu, queue_depth}
//
//     cell {cell, shape, address}   ->      makes its endpoint, connects, posts receives
//                                   <-  endpoint {address}
//   or, for many queue pairs (fan_in.h):
//     cell {cell, shape, address}   ->
//     qpns {list} ...               ->      makes and connects its queue pairs, posts receives
//                                   <-  endpoint {address}
//                                   <-  qpns {list} ...
//   or, by rdma_cm:
//     cell {cell, shape, ticket}    ->      listens
//                                   <-  listening {gid, port}
//     REQ of rdma_cm                ->      makes its endpoint, posts receives
//                                   <-  REP of rdma_cm
//                                   <-  endpoint {}
//
//     run {number, total, seed}     ->      for the warm-up, for the rate without a check of every
//                                           byte (--verify), and measured
//                                   <-  ready
//     ... messages ...
//     are_you_idle {}               ->      if UD credits are missing
//                                   <-  idle {}              when all that arrived is consumed
//     sent {}                       ->
//                                   <-  result {delivery}    may come before `sent`
//     close {}                      ->
//                                   <-  closed
//
//     round_trip {}                 ->      answers on the shared page (two processes of one host)
//                                   <-  answered
//
// The ticket is the run number in the Offer, so that a late REQ of an abandoned attempt is not
// taken for this one.
//
// Threads: values and pure functions.
// Errors: the server reports a failure as `failed {text}`; the client then closes the cell and goes
//   on with the next. When the control connection ends, the other side gives up (PeerLost).
#pragma once

#include <chrono>

#include "bench/far_end/control.h"
#include "bench/rcud/endpoint.h"

namespace verbena::rcud {

inline constexpr int protocol_version = 3;
inline constexpr std::string_view protocol_name = "verbena-rcud";

// The failure of a cell for which a process could not allocate memory.
inline constexpr const char* no_memory = "no memory is left";
inline constexpr std::chrono::seconds answer_patience{30};  // set-up, results

// The server's description of itself.
struct PeerInfo {
	std::string device;
	bool software = false;
	std::string gid;
	std::uint32_t mtu = 0;
	std::uint32_t queue_depth = 0;
	std::uint32_t qps = 0;  // queue pairs that the device has
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeerInfo, device, software, gid, mtu, queue_depth, qps)

// The depth of send and receive queues that the device allows, at most 16,384.
std::uint32_t queue_depth_of(const lib::OpenDevice& device);
// The queue pairs that the device has.
std::uint32_t qps_of(const lib::OpenDevice& device);

// A field of a message; the peer is untrusted, so the field may be missing or of another type.
template <class T> T field(const bench::Message& message, const char* name) {
	try {
		return message.at(name).get<T>();
	} catch (const nlohmann::json::exception&) {
		throw PeerLost(bench::bad_field(message, name));
	}
}

}  // namespace verbena::rcud
