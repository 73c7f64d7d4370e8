// SPDX-License-Identifier: Apache-2.0
// The measured loop of the receiver: takes messages, checks them, counts them, and sends credits.
//
// SEND: the buffers that one poll returned are checked and posted again as one list.
// WRITE: the target polls the end of each slot of its ring in turn, and checks the message when it
//   is there.
// READ: the target only polls its completion queue (or sleeps); the reader counts.
//
// A credit is the number of messages consumed so far, sent every `shape.credit_every` messages and
// at the end. Over RC a damaged message is consumed too. Over UD the number is one past the highest
// sequence number that arrived, so that a lost message does not close the window for ever.
//
// Each completion is compared with the one that must come next (completions.h), and the clock may
// jump (patience.h). receiver_loop.h has the definitions, for ends other than an Endpoint.
//
// Threads: one thread; `published` may be read by others.
// Lifetime: the endpoint must outlive it.
// Errors: Failure on an error completion or a wrong one, or when the watcher gives up.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "bench/rcud/arrivals.h"
#include "bench/rcud/endpoint.h"
#include "bench/rcud/reassembly.h"
#include "bench/rcud/stamps.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

template <End E> class ReceiverOn {
public:
	// Posts nothing. `delay_ns` is waited after each message; `passive` makes a READ's target
	// sleep. `published` is kept equal to the number delivered in the current run: in shared
	// memory, it survives the death of this process.
	ReceiverOn(E& end, std::uint32_t delay_ns, bool passive, std::atomic<std::uint64_t>* published = nullptr);

	// Posts all receives. Call once, before the sender may send.
	void post_receives();

	// READ: fills the ring. Call it before the sender may begin the run.
	void prepare(const Run& run);

	// Returns when run.total messages have arrived, or 200 ms after the later of the last arrival
	// and the sender's end (Watch::finished).
	Delivery run(const Run& run, const Watcher& watcher);

	// RC: probes whether the sender is alive, by a WRITE of no bytes. If it is not, run() ends with
	// that WRITE's error. For a watcher that has no other way to notice a death; does nothing while
	// the last probe is under way.
	void probe();

	// Receives messages from any sender until `go_on`, which is called after every poll, returns
	// false; for ud_server. `take` gets the completion and the payload of each message (the GRH is
	// before it); the buffer is posted again afterwards, so the span dangles then.
	void serve(
		const std::function<void(const ibv_wc&, std::span<const std::byte>)>& take, const std::function<bool()>& go_on);

private:
	// The loops of SEND, WRITE and READ.
	template <bool segmented> Delivery receive_sends(const Run& run, const Watcher& watcher);
	Delivery watch_writes(const Run& run, const Watcher& watcher);
	Delivery answer_reads(const Watcher& watcher);

	// Polls once: checks the completions, accepts the messages, and posts their buffers again.
	template <bool segmented> void take_messages();
	// The same where no messages are received.
	void take_credit_completions();
	void take_credit_completion(const ibv_wc& completion);
	template <bool segmented> void accept(const ibv_wc& completion);
	void repost(const ibv_wc* completions, int count);
	// Whether the WRITE whose end has arrived is, or soon becomes, the whole message.
	bool is_whole(const std::byte* message, std::uint64_t stamp);
	// Posts a credit; false if too many credits are under way.
	bool send_credit(const Run& run, std::uint64_t count);
	// Posts the last credit of a run; `take_completions` polls for room.
	template <class Take>
	void send_last_credit(const Run& run, std::uint64_t count, const Watcher& watcher, const Take& take_completions);
	void delay();
	void publish(std::uint64_t delivered) {
		if (published_ != nullptr) published_->store(delivered, std::memory_order_relaxed);
	}

	E& end_;
	Clock<E> clock_;
	const std::uint32_t delay_ns_;
	const bool passive_;
	const bool credits_;
	std::atomic<std::uint64_t>* const published_;
	Account account_;
	Pattern pattern_;
	std::optional<Reassembly> reassembly_;
	std::uint64_t refused_ = 0;          // messages of a wrong length, and refused fragments
	std::uint32_t next_receive_ = 0;     // the buffer that completes next
	std::vector<ibv_recv_wr> requests_;  // one for each buffer, made once
	std::vector<ibv_sge> pieces_;
	std::uint64_t credits_posted_ = 0, credits_completed_ = 0;
	std::uint64_t probe_ = 0;  // the number of the latest probe; probes and credits share one count
};

extern template class ReceiverOn<Endpoint>;
using Receiver = ReceiverOn<Endpoint>;

}  // namespace verbena::rcud
