// SPDX-License-Identifier: Apache-2.0
// A process on the peer's host that forges NAKs for a queue pair, from the peer's address, with
// PSNs in the window.
//
// It knows more than a real one: the queue pair's window, and what its peer has received. It forges
// no acknowledgement of a packet that the peer lacks, because the NIC cannot detect that: sequence
// error and RNR NAKs, which acknowledge everything before their PSN, name a packet that the peer
// expects or has received.
//
// Threads: one.
// Lifetime: destroyed after the fabric's last event; the queue pairs outlive its forging.
#pragma once

#include <cstdint>

#include "nic/sim/endpoint.h"
#include "nic/sim/random.h"

namespace verbena::sim {

enum class ForgedNaks : std::uint8_t { all, fatal };

class Forger {
public:
	// Forges an answer to `victim` in the name of `peer` every `distance` nanoseconds, on average,
	// until stop().
	Forger(
		Endpoint& victim, Endpoint& peer, Nanoseconds distance, std::uint64_t seed, ForgedNaks kinds = ForgedNaks::all);
	Forger(const Forger&) = delete;
	Forger& operator=(const Forger&) = delete;

	void stop() { stopped_ = true; }
	std::uint64_t forged() const { return forged_; }

private:
	void schedule();
	void forge();

	Endpoint& victim_;
	Endpoint& peer_;
	Nanoseconds distance_;
	Random random_;
	ForgedNaks kinds_;
	bool stopped_ = false;
	std::uint64_t forged_ = 0;
};

// Delivers an acknowledgement packet to `victim` in the name of `peer`. PSNs are absolute.
void forge_answer(Endpoint& victim, Endpoint& peer, std::uint8_t syndrome, transport::Psn psn);

}  // namespace verbena::sim
