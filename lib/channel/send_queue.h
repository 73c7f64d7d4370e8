// SPDX-License-Identifier: Apache-2.0
// The send queue of one queue pair. It numbers the requests, marks enough of them as signalled, and
// keeps the units from which they send until they are done.
//
// Requests are numbered from 1 in the order of the calls of post() and defer(), which is the order
// in which the queue pair executes and completes them. defer() holds back small requests: one
// ibv_post_send() posts those of one turn together, before the next request that is not deferred,
// or at the end of the turn. At most `send_depth` / 2 - 1 requests in a row are not signalled, so
// that the queue never fills with requests that no completion covers.
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

// The work request id of a send request is twice its number, with this bit set. The id of a receive
// request is the address of its Unit, where this bit is clear.
inline constexpr std::uint64_t send_mark = 1;

// A queue pair whose channel is destroyed, and the memory that its requests in flight may use until
// it is destroyed too. Destroyed before the pools of its transport.
struct EndedQueuePair {
	UnitList units;  // from which the requests send
	std::vector<Buffer> buffers;  // the memory of RDMA READs and WRITEs
	lib::QueuePair qp;  // the last member, so that it is destroyed first
};

class SendQueue final : public async::TurnEnd {
public:
	// `owner` must outlive this.
	SendQueue(RcOwner& owner, lib::QueuePair qp)
		: owner_(owner), shared_(owner.shared()), qp_(std::move(qp)), depth_(shared_.options.send_depth) {}
	~SendQueue() { end(); }
	SendQueue(const SendQueue&) = delete;
	SendQueue& operator=(const SendQueue&) = delete;

	ibv_qp* queue_pair() const { return qp_.get(); }
	// The number of the newest request, deferred ones included.
	std::uint32_t posted() const { return posted_; }
	// The number of requests that are not done, deferred ones included.
	std::uint32_t in_flight() const { return posted_ - completed_; }
	// The number of units from which requests in flight send.
	std::uint32_t units() const { return units_; }
	bool is_done(std::uint32_t number) const { return static_cast<std::int32_t>(completed_ - number) >= 0; }

	// Posts the deferred requests and then this one. Returns its number. The caller has checked
	// that the queue has room. `signal`: the request must have a completion of its own.
	std::uint32_t post(ibv_send_wr& request, bool signal);
	// Posts a copy of the request later in this turn, signalled. A copy of `piece` is its only
	// scatter-gather element. Returns the number of the request.
	std::uint32_t defer(const ibv_send_wr& request, const ibv_sge& piece);
	// The channel has ended: deferred requests are not posted any more.
	void drop_deferred() { deferred_.clear(); }
	void turn_ends() override { post_deferred(); }

	// Keeps the unit from which the newest request sends. The unit goes back to the pool when the
	// request is done.
	void keep(Unit* unit);
	// All requests up to this number are done.
	void handle_done(std::uint32_t number);
	// Hands over the queue pair, and the units of requests in flight. Nothing is posted afterwards.
	EndedQueuePair end();

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
	// The numbers of the newest request given out, of the newest one done and of the newest one
	// marked as signalled.
	std::uint32_t posted_ = 0, completed_ = 0, signalled_ = 0;
	std::uint32_t units_ = 0;
	Unit* first_ = nullptr;  // the kept units, as a list from the oldest to last_
	Unit* last_ = nullptr;
	std::vector<Deferred> deferred_;
};

}  // namespace verbena::channel
