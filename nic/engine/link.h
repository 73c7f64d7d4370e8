// SPDX-License-Identifier: Apache-2.0
// The link to one peer process of this host: the outlet to it, the ring from it, and the means to
// wake it.
//
// The link to a process of another user (peer().is_stranger) copies everything through the rings:
// neither side maps memory of the other beyond them, moves its threads, or has its doorbell.
//
// Threads: every method under the engine's lock.
// Owns: the shared memory in both directions, the peer's doorbell and its socket, and mappings of
//   the peer's files.
// Lifetime: neither copied nor moved, because the outlet points here. Queue pairs and datagrams
//   point at the outlet; Neighbours frees a link only when none does.
// Errors: the peer is untrusted. Memory that makes no sense sets broken(), and Neighbours retires
//   the link.
#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>

#include "nic/adapter/channel_adapter.h"
#include "nic/engine/flood_guard.h"
#include "nic/engine/own_progress.h"
#include "nic/engine/peer_access.h"
#include "nic/engine/rendezvous.h"
#include "nic/engine/shared_files.h"
#include "nic/engine/watch.h"

namespace verbena::engine {

// Takes a packet that a neighbour received by UDP for one of this process's queue pairs.
// `stranger`: the user of the neighbour, if it is another one.
class ForwardedPackets {
public:
	virtual void take_forwarded(std::span<const std::byte> payload, std::optional<uid_t> stranger) = 0;

protected:
	~ForwardedPackets() = default;
};

class Link {
public:
	explicit Link(Peer peer);
	// The link of this process with itself, over private memory. Error: an errno value of mmap().
	static std::expected<std::unique_ptr<Link>, int> to_self(std::uint64_t token, const OwnProgress& own);
	// The link to which queue pairs are moved when their peer has died: requests of RC fail with
	// retry_exceeded when they are received here, and everything else vanishes.
	static std::expected<std::unique_ptr<Link>, int> to_dead_end(const OwnProgress& own);
	Link(const Link&) = delete;
	Link& operator=(const Link&) = delete;

	transport::Outlet outlet;

	// Hands over what has come in, at most a pass's budget. True: there was something.
	bool receive(adapter::ChannelAdapter&, ForwardedPackets&);

	// Rings the peer's doorbell if the peer sleeps and does not know yet what was published, or if
	// it wants a kick for each request and there is a new one. If an acknowledgement comes with the
	// request, the peer probably polls for it and gets no kick. If it does not, this process finds
	// the peer stuck, as its program `polls` for its own completion. The caller has fenced since it
	// published.
	void kick_if_wanted(Nanoseconds now, bool polls);

	// The program waits for a peer that has stopped driving its engine: called now and then from
	// empty polls, with a clock of about a microsecond.
	void kick_if_stuck(Nanoseconds now);

	// For a stranger's link whose socket became readable: reads its kicks. end: it has closed the
	// socket. noise: it kicks too often without need, so the socket is to be left alone for a
	// while.
	enum class Heard { kick, noise, end };
	Heard hear(Nanoseconds now);

	// From now on requesters execute operations directly in the peer's memory, if the kernel lets
	// this process reach it. `own` is this process's. Without effect for a stranger's link.
	void use_direct(const OwnProgress& own);
	// The peer has ended: its memory takes no more operations.
	void stop_direct() { outlet.peer_memory = nullptr; }
	// The direct operation that the peer has announced in this process's memory. None once it has
	// ended.
	wire::DirectAccess direct_access() const {
		return {peer_.incoming ? peer_.incoming->direct_access.load(std::memory_order_acquire) : 0};
	}

	// In the child of a fork, which has the descriptors but not the mappings.
	void abandon_after_fork();

	// The peer's engine last ran where the caller runs: while the caller spins, the peer cannot
	// answer.
	bool shares_cpu(std::uint32_t cpu) const {
		return !is_self() && !outlet.closed && peer_.progress->cpu.load(std::memory_order_relaxed) == cpu;
	}

	// The peer's queue pairs are reached by UDP alone.
	bool is_wire_only() const { return progress_->wire_only.load(std::memory_order_relaxed) != 0; }

	// The number of rdma_cm services that the peer has released so far.
	std::uint32_t services_released() const { return progress_->services_released.load(std::memory_order_acquire); }

	// The traffic written to this link and read from it. A message to the dead end is lost.
	wire::Traffic sent() const;
	wire::Traffic received() const;
	bool is_dead_end() const { return is_dead_end_; }

	const Peer& peer() const { return peer_; }
	bool is_self() const { return self_ != nullptr; }
	bool broken() const { return broken_; }
	// The peer has closed its socket or ended.
	bool peer_is_gone() const;

	// A pass never holds the engine longer than this brings: slots, bytes that came through the
	// ring, and payloads that are copied from memory of the peer (decision 61).
	static constexpr std::uint32_t slots_a_pass = 32;
	static constexpr std::uint32_t bytes_a_pass = 32 * 1024;
	static constexpr std::uint32_t shared_payloads_a_pass = 4;

private:
	explicit Link(pid_t peer) : files_(peer) {}

	bool refuse(adapter::ChannelAdapter&);
	void receive_shared(adapter::ChannelAdapter&, const wire::Slot& image);

	Peer peer_;
	// The page of the process that reads what is written here, and the doorbell that wakes it.
	const ProgressPage* progress_ = nullptr;
	int doorbell_ = -1;
	Mapped<wire::Direction> self_;  // instead of a peer: this process sends to itself
	PeerFiles files_;
	std::optional<PeerAccess> direct_;
	wire::SlotReader slots_;
	wire::AckReader acks_;
	wire::Traffic slots_traffic_;  // in the slots that were read
	bool is_dead_end_ = false;
	bool broken_ = false;  // the peer's memory made no sense
	void kick();
	bool kick_if_armed();
	void note_needed_kick(Nanoseconds now);

	FloodGuard kick_guard_;
	std::uint64_t consumed_at_kick_ = 0;
	int moved_to_ = -1;  // the processor to which the peer's progress thread was last moved
	std::uint32_t kicked_epoch_ = 0, kicked_request_epoch_ = 0;
	std::uint64_t published_seen_ = 0;  // slots, when kick_if_wanted() was last called
	std::uint64_t stuck_at_pass_ = 0;
	Nanoseconds kick_at_ = never;
	// Kicks of a peer that is not ARMED. One that waits for bytes in memory needs 30 or more of
	// them within the two milliseconds. Two that poll can disturb each other with some, because a
	// kick keeps both from polling.
	NeededKicks<12> needed_kicks_;
	Spell peer_needs_kicks_;
};

}  // namespace verbena::engine
