// SPDX-License-Identifier: Apache-2.0
// The client of a measurement, which has the senders (protocol.h).
//
// Threads: one thread in each process.
// Lifetime: device, control connection and shared page must outlive the client.
// Errors: as in protocol.h.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "bench/far_end/round_trip.h"
#include "bench/rcud/fan_in_sender.h"
#include "bench/rcud/managed.h"
#include "bench/rcud/protocol.h"
#include "bench/rcud/repetition.h"
#include "bench/rcud/sender.h"

namespace verbena::rcud {

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
	// `seed` as in Run.
	Sent run_once(const Send& send, std::uint64_t total, std::uint64_t seed, Repetition& result);
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

}  // namespace verbena::rcud
