// SPDX-License-Identifier: Apache-2.0
// The definitions of fan_in_receiver.h. An end that is not a FanInReceiverEndpoint includes this
// file, and instantiates FanInReceiverOn with itself.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

#include "bench/rcud/completions.h"
#include "bench/rcud/fan_in_receiver.h"

namespace verbena::rcud {

inline constexpr std::uint64_t fan_in_credit_signal_every = 16;
// wr_id of a credit: the queue above, its number below.
inline constexpr int fan_in_credit_shift = 48;
inline constexpr std::uint64_t fan_in_credit_mark = std::uint64_t{1} << 63;

inline std::uint64_t fan_in_credit_id(std::uint64_t queue, std::uint64_t number) {
	return fan_in_credit_mark | queue << fan_in_credit_shift | number;
}

template <FanInEnd E>
FanInReceiverOn<E>::FanInReceiverOn(E& end, std::uint32_t delay_ns, std::atomic<std::uint64_t>* published)
	: end_(end),
	  clock_(end),
	  delay_ns_(delay_ns),
	  credits_(end.cell.window_mode == WindowMode::credit),
	  published_(published),
	  requests_(end.shape.receive_depth),
	  pieces_(end.shape.receive_depth),
	  is_posted_(end.shape.receive_depth),
	  lanes_(end.cell.senders),
	  credit_queues_(end.credit_queues),
	  next_of_(end.cell.qps) {
	for (std::uint32_t i = 0; i < requests_.size(); ++i) {
		pieces_[i] = {.addr = reinterpret_cast<std::uint64_t>(end_.receive_at(i) - end_.grh_bytes()),
			.length = end_.cell.msg + end_.grh_bytes(),
			.lkey = end_.lkey()};
		requests_[i] = {.wr_id = i, .next = nullptr, .sg_list = &pieces_[i], .num_sge = 1};
	}
}

template <FanInEnd E> void FanInReceiverOn<E>::post_receives() {
	for (std::size_t i = 0; i + 1 < requests_.size(); ++i) requests_[i].next = &requests_[i + 1];
	std::ranges::fill(is_posted_, 1);
	end_.post_receives(requests_.data());
}

template <FanInEnd E> void FanInReceiverOn<E>::accept(const ibv_wc& completion, const Run& run) {
	const std::byte* bytes = end_.receive_at(completion.wr_id);
	const std::uint64_t stamp = load_stamp(bytes), sequence = sequence_of(stamp);
	const auto qp = static_cast<std::uint32_t>(sequence % end_.cell.qps);
	const std::uint32_t came_from = end_.is_ud() ? completion.src_qp : completion.qp_num;
	const std::uint32_t must_come_from = end_.is_ud() ? end_.remote_qpn(qp) : end_.qp_num(qp);
	// Too large if the completion claims less than a GRH.
	const std::uint32_t length = completion.byte_len - end_.grh_bytes();
	const bool is_of_run = run_of(stamp) == run.number;
	const bool is_misplaced = is_of_run && (came_from != must_come_from || sequence >= run.total);
	if (length != end_.cell.msg || is_misplaced) [[unlikely]] {
		++misplaced_;
		return refuse(completion);
	}
	Account& account = lanes_[qp % end_.cell.senders].account;
	if (!is_of_run || !pattern_.agrees(bytes, length, stamp)) [[unlikely]] {
		account.accept(bytes, length);  // stale or corrupt
		return refuse(completion);
	}
	const std::uint64_t before = account.delivered;
	account.accept_sequence(sequence / end_.cell.senders);
	if (account.delivered == before) return;
	++delivered_;
	std::uint64_t& next = next_of_[qp];
	if (next == 0) ++qps_used_;
	if (sequence >= next) next = sequence + 1;
	else ++reordered_;
	if (delay_ns_ == 0) return;
	for (const std::uint64_t until = clock_.now() + delay_ns_; clock_.now() < until;) {}
}

// RC: the message is consumed all the same, so that its sender's window does not close for ever.
// Its stamp cannot be trusted; its queue pair names the sender.
template <FanInEnd E> void FanInReceiverOn<E>::refuse(const ibv_wc& completion) {
	if (end_.is_ud()) return;
	for (std::uint32_t qp = 0; qp < end_.cell.qps; ++qp)
		if (end_.qp_num(qp) == completion.qp_num) ++lanes_[qp % end_.cell.senders].lost;
}

// Takes the completions of one poll, and posts the receives again as one list.
template <FanInEnd E> void FanInReceiverOn<E>::digest(const ibv_wc* completions, int count, const Run& run) {
	ibv_recv_wr* list = nullptr;
	for (int i = 0; i < count; ++i) {
		const ibv_wc& each = completions[i];
		check_status(each, "receive");
		if (!is_receive(each)) {
			take_credit_completion(each);
			continue;
		}
		// RC: accept() compares the queue pair with that of the message.
		const std::uint32_t qp_num = end_.is_ud() ? end_.qp_num(0) : each.qp_num;
		check_completion(each, {.opcode = IBV_WC_RECV, .qp_num = qp_num, .wr_id = each.wr_id}, "receive");
		if (each.wr_id >= requests_.size() || is_posted_[each.wr_id] == 0) [[unlikely]]
			complain_of_idle_buffer(each.wr_id);
		is_posted_[each.wr_id] = 0;
		accept(each, run);
		ibv_recv_wr& request = requests_[each.wr_id];
		request.next = list;
		list = &request;
	}
	if (list == nullptr) return;
	for (const ibv_recv_wr* each = list; each != nullptr; each = each->next) is_posted_[each->wr_id] = 1;
	end_.post_receives(list);
}

template <FanInEnd E> void FanInReceiverOn<E>::take_credit_completion(const ibv_wc& completion) {
	const bool has_mark = (completion.wr_id & fan_in_credit_mark) != 0;
	const std::uint64_t at = (completion.wr_id & ~fan_in_credit_mark) >> fan_in_credit_shift;
	// Not the number of a queue: it differs from that of the first one too.
	const std::uint32_t queue_at = has_mark && at < credit_queues_.size() ? static_cast<std::uint32_t>(at) : 0;
	CreditQueue& queue = credit_queues_[queue_at];
	const std::uint64_t next = queue.completed + fan_in_credit_signal_every;
	check_completion(completion,
		{.opcode = end_.is_ud() ? IBV_WC_SEND : IBV_WC_RDMA_WRITE,
			.qp_num = end_.qp_num(queue_at),
			.wr_id = fan_in_credit_id(queue_at, next)},
		"credit");
	if (next > queue.posted) [[unlikely]]
		complain_of_unposted("credit", next, queue.posted);
	queue.completed = next;
}

template <FanInEnd E> void FanInReceiverOn<E>::give_credits(const Run& run) {
	for (std::uint32_t sender = 0; sender < end_.cell.senders; ++sender) {
		Lane& lane = lanes_[sender];
		const std::uint64_t so_far = consumed(lane);
		const bool is_last = so_far == lane.total && lane.credited < so_far;
		if ((is_last || so_far - lane.credited >= end_.shape.credit_every) && send_credit(run, sender, so_far))
			lane.credited = so_far;
	}
}

template <FanInEnd E> bool FanInReceiverOn<E>::all_credited() const {
	return std::ranges::all_of(lanes_, [this](const Lane& lane) { return lane.credited == consumed(lane); });
}

template <FanInEnd E> Delivery FanInReceiverOn<E>::run(const Run& run, const Watcher& watcher) {
	pattern_ = Pattern(run.seed);
	for (std::uint32_t sender = 0; sender < end_.cell.senders; ++sender) {
		Lane& lane = lanes_[sender];
		lane.account.begin(run.number, sequence_mask + 1, pattern_);
		lane.lost = lane.credited = 0;
		lane.total = share_of(run.total, end_.cell.senders, sender);
	}
	std::ranges::fill(next_of_, 0);
	delivered_ = reordered_ = misplaced_ = qps_used_ = 0;

	Arrivals arrivals(clock_);
	bool sender_finished = false;
	ibv_wc completions[poll_batch];
	while (delivered_ < run.total) {
		const std::uint64_t before = delivered_;
		digest(completions, end_.poll(completions), run);
		if (credits_) give_credits(run);
		if (delivered_ != before) {
			arrivals.batch(delivered_);
			if (published_ != nullptr) published_->store(delivered_, std::memory_order_relaxed);
			continue;
		}
		if (arrivals.idle() && arrivals.silent(ask(watcher, sender_finished))) break;
	}
	if (delivered_ == run.total) arrivals.all_came();
	Wait for_credits;
	for (std::uint32_t polls = 1; credits_ && delivered_ == run.total && !all_credited(); ++polls) {
		digest(completions, end_.poll(completions), run);
		give_credits(run);
		if (polls % watch_every != 0) continue;
		ask(watcher, sender_finished);
		if (for_credits.at(clock_.now()) > stall_ns) throw Failure("credit: no completion for 10 s");
	}

	Delivery delivery{.delivered = delivered_, .reordered = reordered_, .corrupt = misplaced_, .qps_used = qps_used_};
	for (const Lane& lane : lanes_) {
		delivery.duplicated += lane.account.duplicated;
		delivery.corrupt += lane.account.corrupt;
		delivery.stale += lane.account.stale;
	}
	arrivals.fill(delivery);
	return delivery;
}

template <FanInEnd E> bool FanInReceiverOn<E>::send_credit(const Run& run, std::uint32_t sender, std::uint64_t count) {
	const std::uint32_t at = end_.is_ud() ? 0 : sender;
	CreditQueue& queue = credit_queues_[at];
	if (queue.posted - queue.completed >= E::words_per_queue - 1) return false;
	const std::uint64_t number = queue.posted + 1;
	std::uint64_t& word = end_.word_at(at, number);
	word = make_stamp(run.number, count);
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(&word), .length = sizeof word, .lkey = end_.lkey()};
	ibv_send_wr request{};
	request.wr_id = fan_in_credit_id(at, number);
	request.send_flags = number % fan_in_credit_signal_every == 0 ? unsigned{IBV_SEND_SIGNALED} : 0u;
	if (end_.is_ud()) {
		request.opcode = IBV_WR_SEND_WITH_IMM;
		request.imm_data = htonl(make_credit_imm(run.number, count));
		request.wr.ud = {
			.ah = end_.address_handle(), .remote_qpn = end_.remote_qpn(sender), .remote_qkey = end_.remote().qkey};
	} else {
		request.sg_list = &piece;
		request.num_sge = 1;
		request.opcode = IBV_WR_RDMA_WRITE;
		request.wr.rdma = {
			.remote_addr = end_.remote().credit_words + std::uint64_t{sender} * 64, .rkey = end_.remote().credit_rkey};
	}
	end_.post_send(at, request);
	queue.posted = number;
	return true;
}

}  // namespace verbena::rcud
