// SPDX-License-Identifier: Apache-2.0
// The protocol between the two processes of `verbena bench connect`, over one control connection
// (bench/rcud/control.h).
//
//     client                                    server
//     hello {version, connect}              ->  listens
//                                           <-  hello {version, port}
//     round_trip {}                         ->  answers on the shared page (same host only)
//                                           <-  answered
//     ... connections ...
//     account {established, disconnected}   ->  waits for these counts, or for 10 s
//                                           <-  account {established, disconnected, failed,
//                                                        trouble}
//
// Threads: one thread in each process.
// Lifetime: control connection and shared page must outlive client and server.
// Errors: the server reports a failure of its set-up as `failed {text}`. When the control
//   connection ends, the other side gives up (PeerLost).
#pragma once

#include <functional>
#include <memory>

#include "bench/connect/run.h"
#include "bench/far_end/control.h"
#include "bench/far_end/round_trip.h"

namespace verbena::connect {

inline constexpr int protocol_version = 1;

class Client {
public:
	// Exchanges hello messages; Failure if the server has another version. `page` is null if the
	// server is on another host.
	Client(bench::Control& control, bench::RoundTrip* page, std::string_view connect);

	// The port at which the server accepts connections.
	std::uint16_t port() const { return port_; }

	// Measures one repetition. A failure is stored in it and thrown as well.
	void measure(Connector& connector, Repetition& repetition);

private:
	Account account(std::uint64_t established, std::uint64_t disconnected);
	bench::Message expect(std::string_view type);
	std::optional<double> round_trip();

	bench::Control& control_;
	bench::RoundTrip* page_;
	std::uint16_t port_ = 0;
	Account seen_;  // the server's account before the repetition
};

// Serves one client until it disconnects. `make` makes the acceptor for a value of --connect.
void serve(bench::Control& control, bench::RoundTrip* page,
	const std::function<std::unique_ptr<Acceptor>(std::string_view connect)>& make);

}  // namespace verbena::connect
