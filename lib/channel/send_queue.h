// The send queue of one queue pair: it numbers the requests, signals enough of them, and keeps the
// units that they send from until they are done.
//
// Requests have numbers, from 1, in the order of their calls, which is the order in which the queue
// pair executes and completes them. Small requests may be deferred: those of one turn are posted by
// one call, in front of the next request that is not deferred, or at the end of the turn. At
// least one request in every half a queue is signalled, so that the queue never fills with requests
// that no completion covers.
//
// Threads: the loop's thread.
// Owns: the queue pair, and the units of requests in flight.
// Errors: a request that the device refuses ends the channel (RcOwner::fail); it counts as posted
//   all the same.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/channel/rc_shared.h"

namespace verbena::channel {

// A send's work request id is its number, doubled, with this bit set; a receive's is the address of
// its Unit.
inline constexpr std::uint64_t send_mark = 1;

class SendQueue final : public async::TurnEnd {
public:
	// `owner` must outlive this.
	SendQueue(RcOwner& owner, lib::QueuePair qp)
		: owner_(owner), shared_(owner.shared()), qp_(std::move(qp)), depth_(shared_.options.send_depth) {}
	~SendQueue() { destroy(); }
	SendQueue(const SendQueue&) = delete;
	SendQueue& operator=(const SendQueue&) = delete;

	ibv_qp* queue_pair() const { return qp_.get(); }
	// The number of the newest request, deferred ones included.
	std::uint32_t posted() const { return posted_; }
	std::uint32_t in_flight() const { return posted_ - completed_; }
	std::uint32_t units() const { return units_; }  // units that requests in flight send from
	bool is_done(std::uint32_t number) const { return static_cast<std::int32_t>(completed_ - number) >= 0; }

	// Posts one request behind the deferred ones. Returns its number. The caller has checked that
	// there is room.
	std::uint32_t post(ibv_send_wr& request, bool signal);
	// Posts the request later in this turn, signalled; `piece` is its only element. Returns its
	// number.
	std::uint32_t defer(const ibv_send_wr& request, const ibv_sge& piece);
	// The channel has ended: deferred requests are not posted any more.
	void drop_deferred() { deferred_.clear(); }
	void turn_ends() override { post_deferred(); }

	// The newest request sends from this unit, which goes back to the pool when the request is
	// done.
	void keep(Unit* unit);
	// All requests up to this number are done.
	void handle_done(std::uint32_t number);
	// Destroys the queue pair and gives every unit back to the pool.
	void destroy();

private:
	struct Deferred {
		ibv_send_wr request;
		ibv_sge piece;
	};

	std::uint32_t prepare(ibv_send_wr& request, bool signal);
	void post_deferred();
	void post_list(ibv_send_wr& first);
	void give_back_first();

	RcOwner& owner_;
	RcShared& shared_;
	lib::QueuePair qp_;
	std::uint32_t depth_;
	// The number of the newest request that was posted, completed or signalled.
	std::uint32_t posted_ = 0, completed_ = 0, signalled_ = 0;
	std::uint32_t units_ = 0;
	Unit* first_ = nullptr;  // oldest first
	Unit* last_ = nullptr;
	std::vector<Deferred> deferred_;
};

}  // namespace verbena::channel
