// The two sides of a measurement, over one control connection. Each has one open device; every repetition of a cell has
// fresh endpoints at both.
//
//     client                            server
//     hello {version}               ->
//                                   <-  hello {version, device, software, gid, mtu, queue_depth}
//     cell {cell, shape, address}   ->      makes its endpoint, connects, posts receives
//                                   <-  endpoint {address}
//     cell {cell, shape, ticket}    ->      the same by rdma_cm; the ticket is the run number in the Offer, so that a
//     connection which
//                                   <-  listening {gid, port}    was given up on is not taken for this one
//     REQ of rdma_cm                ->      makes its endpoint, posts receives
//                                   <-  REP of rdma_cm
//                                   <-  endpoint {}
//     run {number, total}           ->      once for the warm-up, once measured
//                                   <-  ready
//     ... messages ...
//     are_you_idle {}               ->      a sender whose UD credits stay away; answered when all that came is
//     consumed
//                                   <-  idle {}
//     sent {}                       ->
//                                   <-  result {delivery}            (may come before `sent`)
//     close {}                      ->  <-  closed
//     round_trip {}                 ->      answers on the shared page (two processes of one host only)
//                                   <-  answered
//
// Whatever fails at the server is `failed {text}`; the client closes the cell and goes on. A side whose connection ends
// gives up.
#pragma once

#include <vector>

#include "bench/rcud/control.h"
#include "bench/rcud/managed.h"
#include "bench/rcud/receiver.h"
#include "bench/rcud/round_trip.h"
#include "bench/rcud/sender.h"

namespace verbena::rcud {

inline constexpr int protocol_version = 2;

// What the server said of itself.
struct PeerInfo {
	std::string device;
	bool software = false;
	std::string gid;
	std::uint32_t mtu = 0;
	std::uint32_t queue_depth = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PeerInfo, device, software, gid, mtu, queue_depth)

// One repetition of one cell. When `failure` is not empty the counts are what was known when it happened.
struct Repetition {
	std::uint64_t iters = 0;
	std::uint64_t posted = 0, completed = 0;
	Delivery delivery;
	Histogram latency_ns;
	std::optional<double> rtt_before_ns, rtt_after_ns;
	std::string failure;
};

class Client {
public:
	// Says hello; Failure if the other side is another version or does not answer.
	Client(lib::OpenDevice& device, Control& control, RoundTrip* page);

	const PeerInfo& peer() const { return peer_; }
	Limits limits() const;

	// Never throws Failure but PeerLost; `result` then holds what was known.
	void measure(const Cell& cell, const Shape& shape, const Settings& settings, Repetition& result);

private:
	// What a managed endpoint lives on.
	struct Call {
		lib::EventChannel channel;
		std::optional<Connection> connection;
	};
	void connect(std::optional<Call>& call, std::optional<Endpoint>& end, const Cell& cell, const Shape& shape,
		const Settings& settings);
	Sent run_once(Sender& sender, std::uint64_t total, Repetition& result);
	std::optional<double> round_trip();
	Json expect(std::string_view type, std::chrono::milliseconds patience);
	Watch look(bool silent);

	lib::OpenDevice& device_;
	Control& control_;
	RoundTrip* page_;
	PeerInfo peer_;
	std::uint16_t run_number_ = 0;
	std::uint16_t ticket_ = 0;
	std::optional<Json> pending_;
	bool asked_ = false;  // whether the receiver is idle
};

// Serves one client until it leaves. Throws Failure if the client does not speak the protocol; its leaving is no error.
void serve(lib::OpenDevice& device, Control& control, RoundTrip* page);

std::uint32_t queue_depth_of(const lib::OpenDevice& device);

}  // namespace verbena::rcud
