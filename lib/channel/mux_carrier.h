// MuxCarrier: a channel (RC or TCP) that carries logical channels (mux.h), and MuxGroup: several, over which they
// spread.
//
// What the channels of a turn have to say leaves at its end. The carrier is always read. When it is lost its channels
// are, and only those. Everything belongs to the carrier's loop.
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

	// No channel can be opened any more, and none is left.
	bool ended() const { return ended_; }
	const std::string& reason() const { return reason_; }  // of its end, by anything but close()
	async::Task<void> until_ended();
	// The carrier's end, behind what its channels have said.
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
	std::optional<Channel::Sending> sending_;  // of batch_, while the carrier has no room
	bool closing_ = false, ended_ = false;
	std::string reason_;
	async::List<async::Waiter> idle_writer_, enders_;
	async::Job reader_, writer_;
};

// For the side that opens: each new channel goes where the fewest are.
class MuxGroup {
public:
	void add(std::unique_ptr<MuxCarrier> carrier) { carriers_.push_back(std::move(carrier)); }
	// Must not outlive the group.
	async::Task<Mux::Opened> open(std::uint32_t label);
	const std::vector<std::unique_ptr<MuxCarrier>>& carriers() const { return carriers_; }
	std::vector<std::unique_ptr<MuxCarrier>>& carriers() { return carriers_; }

private:
	std::vector<std::unique_ptr<MuxCarrier>> carriers_;
};

}  // namespace verbena::channel
