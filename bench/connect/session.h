// The two processes of `verbena bench connect`, over one control connection (bench/rcud/control.h).
//
//     client                                        server
//     hello {version, connect}                  ->      listens
//                                               <-  hello {version, port}
//     round_trip {}                             ->      answers on the shared page (two processes of one host only)
//                                               <-  answered
//     ... connections ...
//     account {established, disconnected}       ->      waits until it has seen so many, since it began, or some
//     seconds
//                                               <-  account {established, disconnected, failed, trouble}
//
// Whatever fails at the server is `failed {text}`. A side whose control connection ends gives up.
#pragma once

#include <functional>
#include <memory>

#include "bench/connect/run.h"
#include "bench/rcud/control.h"
#include "bench/rcud/round_trip.h"

namespace verbena::connect {

inline constexpr int protocol_version = 1;

class Client {
public:
	// Says hello; Failure if the other side is another version.
	Client(rcud::Control& control, rcud::RoundTrip* page, std::string_view connect);

	// Where the server accepts connections.
	std::uint16_t port() const { return port_; }

	// What goes wrong is the repetition's `failure`; PeerLost is thrown after that.
	void measure(Connector& connector, Repetition& repetition);

private:
	Account account(std::uint64_t established, std::uint64_t disconnected);
	rcud::Json expect(std::string_view type);
	std::optional<double> round_trip();

	rcud::Control& control_;
	rcud::RoundTrip* page_;
	std::uint16_t port_ = 0;
	Account seen_;  // the server's account before the repetition
};

// Serves one client until it leaves.
void serve(rcud::Control& control, rcud::RoundTrip* page,
	const std::function<std::unique_ptr<Acceptor>(std::string_view connect)>& make);

}  // namespace verbena::connect
