// The measured loop, receiving side: takes messages as they come, checks their stamps, keeps the account, gives
// credits.
//
// SEND: receives stay posted; what a poll gave is checked and posted again as one list. WRITE: the target polls the
// last stamp of every slot of its ring in turn. READ: the target only keeps its queue pair moving (or sleeps); the
// reader counts.
//
// A credit is the number of messages consumed (over UD: one past the highest that arrived, so that a lost message does
// not close the window for good), returned every `shape.credit_every` messages and at the end. One thread; the endpoint
// outlives it.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "bench/rcud/endpoint.h"
#include "bench/rcud/reassembly.h"
#include "bench/rcud/stamps.h"
#include "bench/rcud/traffic.h"

namespace verbena::rcud {

class Receiver {
public:
	// Makes what the endpoint's cell needs; posts nothing. `published` is kept at what the run has delivered so far:
	// what is left of the account when this process dies.
	Receiver(Endpoint& endpoint, std::uint32_t delay_ns, bool passive, std::atomic<std::uint64_t>* published = nullptr);

	// All receives, once, before the sender may send.
	void post_receives();

	// Ends when run.total messages have arrived, or 200 ms after both the last one and the sender's end
	// (Watch::finished). Throws Failure on an error completion or when the watcher says so.
	Delivery run(const Run& run, const Watcher& watcher);

	// RC: asks whether the sender is still there, by a WRITE of no bytes. One that is not ends run() with its error.
	// For a watcher that has no other way to know; does nothing while the last question is on its way.
	void probe();

	// Takes what comes from anybody, without end: for ud_server. Each message's completion and bytes (the GRH is before
	// them) go to `take`; its buffer is posted again afterwards. Ends when `go_on`, asked after every poll, is false.
	void serve(
		const std::function<void(const ibv_wc&, std::span<const std::byte>)>& take, const std::function<bool()>& go_on);

private:
	template <bool segmented> Delivery receive_sends(const Run& run, const Watcher& watcher);
	Delivery watch_writes(const Run& run, const Watcher& watcher);
	Delivery answer_reads(const Watcher& watcher);
	template <bool segmented> void accept(const ibv_wc& completion);
	void repost(const ibv_wc* completions, int count);
	bool give_credit(const Run& run, std::uint64_t count);
	void delay() const;
	void publish(std::uint64_t delivered) {
		if (published_ != nullptr) published_->store(delivered, std::memory_order_relaxed);
	}

	Endpoint& end_;
	const std::uint32_t delay_ns_;
	const bool passive_;
	const bool credits_;
	std::atomic<std::uint64_t>* const published_;
	Account account_;
	std::optional<Reassembly> reassembly_;
	std::uint64_t refused_ = 0;
	std::vector<ibv_recv_wr> requests_;  // one a buffer, made once
	std::vector<ibv_sge> pieces_;
	std::uint64_t credits_posted_ = 0, credits_completed_ = 0;
	std::uint64_t probe_ = 0;  // counted among the credits
};

}  // namespace verbena::rcud
