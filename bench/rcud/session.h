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
//     run {number, total}           ->      once for the warm-up, once measured
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
// Threads: one thread in each process.
// Lifetime: device, control connection and shared page must outlive client and server.
// Errors: the server reports a failure as `failed {text}`; the client then closes the cell and goes
//   on with the next. When the control connection ends, the other side gives up (PeerLost).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "bench/far_end/control.h"
#include "bench/far_end/round_trip.h"
#include "bench/rcud/fan_in_receiver.h"
#include "bench/rcud/fan_in_sender.h"
#include "bench/rcud/managed.h"
#include "bench/rcud/receiver.h"
#include "bench/rcud/repetition.h"
#include "bench/rcud/sender.h"

namespace verbena::rcud {

inline constexpr int protocol_version = 3;

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

class Client {
public:
	// Exchanges hello messages; Failure if the server does not answer or has another version.
	// `page` is null if the server is on another host.
	Client(lib::OpenDevice& device, bench::Control& control, bench::RoundTrip* page);

	const PeerInfo& peer() const { return peer_; }
	// The smaller limits of both ends.
	Limits limits() const;

	// Measures one repetition. A failure is stored in `result`; only PeerLost is thrown as well.
	void measure(const Cell& cell, const Shape& shape, const Settings& settings, Repetition& result);

private:
	// The rdma_cm connection of an endpoint; it must outlive the endpoint.
	struct Call {
		lib::EventChannel channel;
		std::optional<Connection> connection;
	};
	// Runs one sender, or the senders of many queue pairs.
	using Send = std::function<void(const Run&, const Watcher&, Sent&)>;
	std::unique_ptr<FanInSenders> connect_fan_in(const Cell& cell, const Shape& shape, const Settings& settings);
	void connect(std::optional<Call>& call, std::optional<Endpoint>& end, const Cell& cell, const Shape& shape,
		const Settings& settings);
	// The warm-up, and the measured run.
	void run_all(const Send& send, const Cell& cell, const Settings& settings, Repetition& result);
	Sent run_once(const Send& send, std::uint64_t total, Repetition& result);
	std::optional<double> round_trip();
	bench::Message expect(std::string_view type, std::chrono::milliseconds patience);
	// The sender's watcher: asks a silent server whether it is idle, and reads its messages.
	Watch look(bool silent);

	lib::OpenDevice& device_;
	bench::Control& control_;
	bench::RoundTrip* page_;
	PeerInfo peer_;
	std::uint16_t run_number_ = 0;
	std::uint16_t ticket_ = 0;
	std::optional<bench::Message> pending_;  // one that the watcher read before it was expected
	bool asked_ = false;           // are_you_idle is sent and not yet answered
};

// Serves one client until it disconnects, which is no error. Throws Failure if the client does not
// speak the protocol.
void serve(lib::OpenDevice& device, bench::Control& control, bench::RoundTrip* page);

// The depth of send and receive queues that the device allows, at most 16,384.
std::uint32_t queue_depth_of(const lib::OpenDevice& device);
// The queue pairs that the device has.
std::uint32_t qps_of(const lib::OpenDevice& device);

}  // namespace verbena::rcud
