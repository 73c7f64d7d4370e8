// SPDX-License-Identifier: Apache-2.0
// The unkind NIC of one process (`verbena run --adversary`): behaves as badly as the model permits,
// and never worse. The decorators of the verbs (nic/verbs/adverse_path.h) call it, and the adapter
// through its observer.
//
//   placement  bytes of WRITEs and SENDs are stored late, and the lines of a message in any order
//   gather     requests are sent late, so that their source is read late
//   reads      the data of a READ are fetched late, and its lines at different times; the bytes of
//              the response are stored in any order
//   atomics    a remote atomic stores its result late, and overwrites what the processor stored
//   datagrams  UD and UC packets are lost or overtaken
//   connections  messages of a connection's set-up and end leave late
//   receives   a message takes another one of the receives that are posted (under `loose`)
// Completions and their events are in gate.h.
//
// Ordering points of a queue pair, at which all its earlier bytes are stored: a receive completes,
// a READ or atomic arrives, a request of its own completes (for the bytes of responses), the queue
// pair ends. When a right to memory is withdrawn, the bytes of all queue pairs are stored.
//
// Threads: under the engine's lock, but observe() and due() any.
// Owns: bytes, responses and requests that it holds back.
// Lifetime: as the adapter, whose observer it is. It decorates the routines of nic/memory for the
//   whole process, and acts only on bytes of packets of its own adapter.
// Invariants: each delay ends after delay_max at the latest, if advance() is called when due()
//   says so.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "nic/adapter/channel_adapter.h"
#include "nic/adversary/placement.h"

namespace verbena::adversary {

class Adversary final : public transport::Observer {
public:
	// `next`: the observer that the adapter had; may be null. `changed` is called, under the lock,
	// when due() may have become earlier, and `decided` for each thing that is held back or lost.
	Adversary(const Spec&, adapter::ChannelAdapter&, transport::Observer* next, std::function<void()> changed,
		std::function<void(const Decision&)> decided);

	// The program has got a completion or posted a request. True: advance() has something to do.
	bool observe();
	// When advance() has something to do, in nanoseconds; `never` if nothing is held back.
	Nanoseconds due() const { return due_time_.load(std::memory_order_relaxed); }
	// Ends the delays that are over. A pass of the engine must follow.
	void advance(Nanoseconds now);
	// Ends all delays: the process ends.
	void settle();

	// A request is about to be posted to the queue pair: perhaps holds it back from now on.
	void before_post(transport::QueuePair&);

	const Spec& spec() const { return spec_; }

	void sent(
		const transport::Outlet&, const wire::Slot&, std::uint32_t length, std::uint32_t source) noexcept override;
	bool arrived(const transport::Outlet& from, const wire::Slot&, const std::byte* payload,
		const wire::AddressPair&) noexcept override;
	void handled() noexcept override;
	void acknowledged(const transport::QueuePair&, std::uint8_t syndrome, wire::Psn24) noexcept override;
	void acknowledgement_arrived(const transport::Outlet& from, const wire::AckRecord&) noexcept override;
	void finished(const transport::QueuePair&, const queues::SendWqe&, queues::Status, bool direct) noexcept override;
	void received(const queues::Completion&) noexcept override;
	void waits(const transport::QueuePair&, transport::Waits, Nanoseconds pause) noexcept override;
	void ends(transport::QueuePair&) noexcept override;
	bool holds_message() noexcept override;
	void withdrawn() noexcept override;

private:
	struct Decorator;  // the routines that replace those of nic/memory

	// The responses of a queue pair that wait, and lines of the first READ that were fetched early.
	struct Parked {
		Moment due;
		const std::byte* from = nullptr;
		std::uint32_t length = 0;
		std::vector<std::pair<std::uint32_t, std::vector<std::byte>>> early;  // offset and bytes
	};
	struct Datagram {
		Moment due;
		wire::Slot slot;
		std::vector<std::byte> payload;
		wire::AddressPair addresses;
	};

	Moment now() const;
	std::uint64_t draw_for(Kind, const Identity&) const;
	bool place(std::byte* to, const std::byte* from, std::size_t n);
	bool begin_atomic(const std::uint64_t* at);  // true: its result is stored later
	void end_atomic_later(std::uint64_t* at, std::uint64_t value);
	bool keeps(const transport::QueuePair&, const wire::Slot&, const std::byte* payload, const wire::AddressPair&);
	void choose_receive(const transport::QueuePair&, const Identity&);
	void read_arrives(transport::QueuePair&, const wire::Slot&, std::uint64_t bits);
	Parked* park(transport::QueuePair&, Kind, const Delay&);
	void unpark(transport::QueuePair&);
	void release(transport::QueuePair&);
	void deliver(const Datagram&);
	void note_due();

	const Spec spec_;
	adapter::ChannelAdapter& adapter_;
	transport::Observer* const next_;
	const std::function<void()> changed_;
	const std::function<void(const Decision&)> decided_;
	Placement placement_;
	// By queue pair number.
	std::unordered_map<std::uint32_t, Parked> parked_;
	std::unordered_map<std::uint32_t, Moment> held_;
	std::unordered_map<std::uint32_t, std::uint64_t> datagrams_seen_;
	std::vector<Datagram> kept_;
	// Messages of connections that have left, and until when the next one waits.
	std::uint64_t messages_ = 0;
	std::optional<Nanoseconds> message_due_;
	bool message_waited_ = false;  // it may leave
	bool settled_ = false;
	std::atomic<std::uint64_t> observations_{0}, due_observations_{~std::uint64_t{0}};
	std::atomic<Nanoseconds> due_time_{never};
};

}  // namespace verbena::adversary
