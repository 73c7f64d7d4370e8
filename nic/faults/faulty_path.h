// SPDX-License-Identifier: Apache-2.0
// A UDP path whose packets meet the faults of a Network.
//
// It reads the slots as a UdpPath does, and writes each packet into memory of its own, where the
// packet waits until it leaves. Each packet takes one system call.
//
// Threads: under the engine's lock, as every UdpPath.
// Owns: the packets that have not left yet.
// Errors: those of UdpPath. A packet for which there is no memory counts as lost on a full line.
#pragma once

#include "nic/faults/line.h"
#include "nic/faults/network.h"
#include "nic/link/udp_path.h"

namespace verbena::faults {

class FaultyPath final : public link::UdpPath {
public:
	FaultyPath(
		link::UdpLink& link, const link::UdpPathOptions& options, Network& network, adapter::ChannelAdapter& adapter)
		: UdpPath(link, options), network_(network), adapter_(adapter) {}

	// Sends the packets that are due. False: packets wait for their time, or for room in the
	// socket; the ring is empty in any case.
	bool transmit() override;
	Nanoseconds due() const override { return line_.due(); }
	// Sends all packets now: the process ends, and what is on its way must arrive.
	void finish() override;

private:
	void read_slots(Nanoseconds now);
	void depart(const wire::Slot&, Nanoseconds now);
	void depart(Line::Packet, const Network::Packet&, Nanoseconds now);
	bool send_until(Nanoseconds now);  // false: packets are left

	Network& network_;
	adapter::ChannelAdapter& adapter_;
	Line line_;
};

}  // namespace verbena::faults
