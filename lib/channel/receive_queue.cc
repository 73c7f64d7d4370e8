// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/receive_queue.h"

#include <array>

#include "base/check.h"

namespace verbena::channel {
namespace {

constexpr std::uint32_t post_batch_max = 32;
// One in this many units of a pool is kept from a shared queue, which never gives units back:
// otherwise there could be no unit left to send from.
constexpr std::uint32_t kept_to_send = 8;

}  // namespace

ReceiveQueue::~ReceiveQueue() {
	for (Unit* const unit : posted_) pool_.give_back(unit);
}

void ReceiveQueue::post(Unit* list) {
	while (list != nullptr) {
		std::array<ibv_recv_wr, post_batch_max> requests;
		std::array<ibv_sge, post_batch_max> places;
		std::uint32_t count = 0;
		for (; list != nullptr && count < post_batch_max; list = list->next, ++count) {
			places[count] = {
				.addr = reinterpret_cast<std::uint64_t>(list->data), .length = pool_.unit_bytes(), .lkey = list->lkey};
			requests[count] = {.wr_id = reinterpret_cast<std::uint64_t>(list),
				.next = nullptr,
				.sg_list = &places[count],
				.num_sge = 1};
			if (count > 0) requests[count - 1].next = &requests[count];
			if (own_ != nullptr) posted_.push_back(list);
		}
		ibv_recv_wr* bad = nullptr;
		const int error = own_ != nullptr ? ibv_post_recv(own_, requests.data(), &bad)
										  : ibv_post_srq_recv(shared_, requests.data(), &bad);
		check(error == 0, "a receive queue has room for every unit that is granted");
		++posts_;
	}
}

bool ReceiveQueue::grow(std::uint32_t wanted) {
	Unit* list = nullptr;
	std::uint32_t count = 0;
	for (; count < wanted; ++count) {
		if (own_ == nullptr && pool_.in_use() >= pool_.max() - pool_.max() / kept_to_send) break;
		Unit* const unit = pool_.take();
		if (unit == nullptr) break;
		unit->next = list;
		list = unit;
	}
	post(list);
	bank_.posted(count);
	return count > 0;
}

}  // namespace verbena::channel
