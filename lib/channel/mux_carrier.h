// SPDX-License-Identifier: Apache-2.0
// MuxCarrier moves the messages between a carrier (an RC or TCP channel) and its Mux (mux.h).
// MuxGroup spreads logical channels over several carriers.
//
// Frames that the channels put within a turn are sent at its end. The carrier is always read. When
// it is lost, its channels are lost with it, and no others.
//
// Threads: the carrier's loop.
// Owns: the carrier and its Mux.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/async/job.h"
#include "lib/channel/mux.h"

namespace verbena::channel {

class MuxCarrier final : private async::TurnEnd {
public:
	MuxCarrier(std::unique_ptr<Channel> carrier, Mux::Side side, MuxOptions options, Mux::Deliver deliver = {});

	Mux& mux() { return mux_; }
	const Mux& mux() const { return mux_; }
	Channel& carrier() { return *carrier_; }

	// The carrier has ended: its channels too, and no more can be opened.
	bool ended() const { return ended_; }
	const std::string& reason() const { return reason_; }  // why it ended; empty after close()
	async::Task<void> until_ended();
	// Closes the carrier once the frames of its channels are sent.
	void close();

private:
	void turn_ends() override { pump(); }
	void pump();
	async::Task<void> write();
	async::Task<void> read();
	void end(Trouble trouble, std::string reason);

	std::unique_ptr<Channel> carrier_;
	Mux mux_;
	std::vector<std::byte> batch_;
	std::optional<Channel::Sending> sending_;  // sends batch_, while the carrier has no room
	bool closing_ = false, ended_ = false;
	std::string reason_;
	async::List<async::Waiter> idle_writer_, enders_;
	async::Job reader_, writer_;
};

// For the side that opens channels: each new one goes to the carrier that has the fewest.
class MuxGroup {
public:
	void add(std::unique_ptr<MuxCarrier> carrier) { carriers_.push_back(std::move(carrier)); }
	// Opens a channel; must be done before the group is destroyed.
	async::Task<Mux::Opened> open(std::uint32_t label);
	const std::vector<std::unique_ptr<MuxCarrier>>& carriers() const { return carriers_; }
	std::vector<std::unique_ptr<MuxCarrier>>& carriers() { return carriers_; }

private:
	std::vector<std::unique_ptr<MuxCarrier>> carriers_;
};

}  // namespace verbena::channel
