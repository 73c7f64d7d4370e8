// The send queue of one queue pair: requests have numbers, from 1; at least every half queue one is signalled, and the
// unit that a request sends from is kept until it is done.
#pragma once

#include <cstdint>

#include "lib/channel/units.h"

namespace verbena::channel {

// A send's work request id is its number, doubled, with this bit; a receive's is its Unit.
inline constexpr std::uint64_t send_mark = 1;

class SendQueue {
public:
	SendQueue(lib::QueuePair qp, UnitPool& pool, std::uint32_t depth)
		: qp_(std::move(qp)), pool_(pool), depth_(depth) {}
	~SendQueue() { destroy(); }
	SendQueue(const SendQueue&) = delete;
	SendQueue& operator=(const SendQueue&) = delete;

	ibv_qp* queue_pair() const { return qp_.get(); }
	std::uint32_t posted() const { return posted_; }  // the number of the last one
	std::uint32_t in_flight() const { return posted_ - completed_; }
	std::uint32_t units() const { return units_; }  // that are being sent from
	bool is_done(std::uint32_t number) const { return static_cast<std::int32_t>(completed_ - number) >= 0; }

	// A request or a chain of them; what ibv_post_send returned. One that the device refused counts too: the queue pair
	// has failed.
	int post(ibv_send_wr& request, bool signal);
	// The last request sends from it.
	void keep(Unit* unit);
	// All up to this one are done.
	void handle_done(std::uint32_t number);
	// Nothing is sent any more, and the units are the pool's.
	void destroy();

private:
	void give_back_first();

	lib::QueuePair qp_;
	UnitPool& pool_;
	std::uint32_t depth_;
	std::uint32_t posted_ = 0, completed_ = 0, signalled_ = 0;
	std::uint32_t units_ = 0;
	Unit* first_ = nullptr;  // oldest first
	Unit* last_ = nullptr;
};

}  // namespace verbena::channel
