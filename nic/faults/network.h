// SPDX-License-Identifier: Apache-2.0
// The faulty network of one process, as VERBENA_FAULTS describes it: decides which of the process's
// packets meet a fault, and counts them.
//
// A process faults the packets that it sends, and with `rnr` the requests that it receives. So two
// processes with the same text meet the same faults in both directions, and nothing is faulted
// twice.
//
// Threads: under the engine's lock.
// Owns: nothing but its counts; FaultyPath holds the packets.
// Lifetime: made before the engine, which owns it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nic/adapter/channel_adapter.h"
#include "nic/faults/fate.h"
#include "nic/faults/spec/spec.h"
#include "nic/trace/record.h"

namespace verbena::faults {

class Network {
public:
	// `now`: the beginning of the time that partitions are counted from.
	Network(Spec spec, std::uint64_t seed, Nanoseconds now) : spec_(std::move(spec)), seed_(seed), began_(now) {}
	Network(const Network&) = delete;
	Network& operator=(const Network&) = delete;

	// A packet that a queue pair of this process sends, or receives.
	struct Packet {
		std::uint32_t qpn = 0;
		std::uint32_t peer_qpn = 0;
		wire::Gid peer{};
		wire::Opcode opcode{};
		wire::Psn24 psn;
		std::uint32_t bytes = 0;  // payload
	};

	// The fate of a packet that leaves now, and the rate of its line in bits a second. Counts and
	// traces the faults.
	struct Departure {
		Fate fate;
		std::uint64_t bits_per_second = 0;
	};
	Departure leaves(adapter::ChannelAdapter&, const Packet&, Nanoseconds now);
	// The packet finds its line full and is lost.
	void finds_line_full(adapter::ChannelAdapter&, const Packet&);

	// True if a request that has arrived is to be answered by an RNR NAK; the caller then calls
	// transport::refuse() instead of handling it.
	bool refuses(adapter::ChannelAdapter&, transport::QueuePair&, const wire::Slot&);

	// One line for people: "seed 42, 812 packets sent, 9 lost, 2 duplicated".
	std::string summary() const;

private:
	Identity identify(adapter::ChannelAdapter&, const Packet&, bool arrives) const;
	void note(trace::Fault, const Packet&, const Identity&, std::uint32_t times);

	Spec spec_;
	std::uint64_t seed_;
	Nanoseconds began_;
	Repetitions repetitions_;
	std::uint64_t sent_ = 0;
	std::array<std::uint64_t, static_cast<std::size_t>(trace::Fault::count)> met_{};
};

}  // namespace verbena::faults
