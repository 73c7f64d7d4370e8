// SPDX-License-Identifier: Apache-2.0
// The definitions of receiver.h. An end that is not an Endpoint includes this file, and
// instantiates ReceiverOn with itself.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "bench/far_end/control.h"
#include "bench/rcud/completions.h"
#include "bench/rcud/receiver.h"

namespace verbena::rcud {

// One credit in 16 is signaled, because its completion frees the send-queue entries up to it. At
// most this many credits may be under way.
inline constexpr std::uint64_t credit_signal_every = 16;
inline constexpr std::uint64_t credits_outstanding_max = Buffers::word_count - 1;
// A NIC may place the bytes of a WRITE in any order, and takes less than this from the first to the
// last of them once the end is there.
inline constexpr std::uint64_t placement_ns = 100'000'000;
// A WRITE whose beginning is there, but not its end, is damaged after this time. It is less than
// stall_ns, after which the sender fails.
inline constexpr std::uint64_t end_patience_ns = 5'000'000'000;

template <End E>
ReceiverOn<E>::ReceiverOn(E& end, std::uint32_t delay_ns, bool passive, std::atomic<std::uint64_t>* published)
	: end_(end),
	  clock_(end),
	  delay_ns_(delay_ns),
	  passive_(passive),
	  credits_(end_.cell.op == Op::write || (end_.cell.op == Op::send && end_.cell.window_mode == WindowMode::credit)),
	  published_(published),
	  requests_(end_.receive_count),
	  pieces_(end_.receive_count) {
	if (end_.shape.fragments > 1)
		reassembly_.emplace(end_.cell.window,
			Reassembly::Shape{.message_bytes = end_.cell.msg,
				.fragments = end_.shape.fragments,
				.fragment_bytes = end_.shape.fragment_bytes});
	for (std::uint32_t i = 0; i < end_.receive_count; ++i) {
		pieces_[i] = {.addr = reinterpret_cast<std::uint64_t>(end_.receive_at(i) - end_.grh_bytes()),
			.length = end_.receive_payload + end_.grh_bytes(),
			.lkey = end_.lkey()};
		requests_[i] = {.wr_id = i, .next = nullptr, .sg_list = &pieces_[i], .num_sge = 1};
	}
}

template <End E> void ReceiverOn<E>::post_receives() {
	if (end_.cell.op != Op::send) return;
	for (std::uint32_t i = 0; i < end_.receive_count; ++i)
		requests_[i].next = i + 1 < end_.receive_count ? &requests_[i + 1] : nullptr;
	end_.post_receives(requests_.data());
}

template <End E> void ReceiverOn<E>::prepare(const Run& run) {
	if (end_.cell.op != Op::read) return;
	for (std::uint32_t slot = 0; slot < end_.slot_count; ++slot)
		Pattern(run.seed).write(end_.slot_at(slot), end_.cell.msg, make_stamp(run.number, slot));
}

template <End E> Delivery ReceiverOn<E>::run(const Run& run, const Watcher& watcher) {
	pattern_ = Pattern(run.seed);
	account_.begin(run.number, run.total, pattern_);
	refused_ = 0;
	switch (end_.cell.op) {
		case Op::write: return watch_writes(run, watcher);
		case Op::read: return answer_reads(watcher);
		case Op::send: break;
	}
	return reassembly_ ? receive_sends<true>(run, watcher) : receive_sends<false>(run, watcher);
}

template <End E> template <bool segmented> void ReceiverOn<E>::accept(const ibv_wc& completion) {
	const std::byte* bytes = end_.receive_at(static_cast<std::uint32_t>(completion.wr_id));
	// Too large if the completion claims less than a GRH.
	const std::uint32_t length = completion.byte_len - end_.grh_bytes();
	if constexpr (segmented) {
		std::span<const std::byte> message;
		const auto result =
			length > end_.receive_payload ? Reassembly::Result::refused : reassembly_->accept({bytes, length}, message);
		switch (result) {
			case Reassembly::Result::whole: account_.accept(message.data(), message.size()); break;
			case Reassembly::Result::refused: ++refused_; break;
			case Reassembly::Result::more: return;
		}
	} else {
		if (length != end_.cell.msg) [[unlikely]]
			++refused_;
		else account_.accept(bytes, length);
	}
	if (delay_ns_ != 0) [[unlikely]]
		delay();
}

// Posts the receives of one poll's completions again, as one list.
template <End E> void ReceiverOn<E>::repost(const ibv_wc* completions, int count) {
	ibv_recv_wr* list = nullptr;
	for (int i = count - 1; i >= 0; --i) {
		if (!is_receive(completions[i])) continue;
		ibv_recv_wr& request = requests_[completions[i].wr_id];
		request.next = list;
		list = &request;
	}
	if (list != nullptr) end_.post_receives(list);
}

template <End E> template <bool segmented> void ReceiverOn<E>::take_messages() {
	ibv_wc completions[poll_batch];
	const int n = end_.poll(completions);
	for (int i = 0; i < n; ++i) {
		check_status(completions[i], "receive");
		if (!is_receive(completions[i])) {
			take_credit_completion(completions[i]);
			continue;
		}
		check_completion(
			completions[i], {.opcode = IBV_WC_RECV, .qp_num = end_.qp_num(), .wr_id = next_receive_}, "receive");
		if (++next_receive_ == end_.receive_count) next_receive_ = 0;
		accept<segmented>(completions[i]);
	}
	if (n > 0) repost(completions, n);
}

template <End E> void ReceiverOn<E>::take_credit_completions() {
	ibv_wc completions[poll_batch];
	const int n = end_.poll(completions);
	for (int i = 0; i < n; ++i) take_credit_completion(completions[i]);
}

template <End E> void ReceiverOn<E>::take_credit_completion(const ibv_wc& completion) {
	std::uint64_t next = (credits_completed_ / credit_signal_every + 1) * credit_signal_every;
	if (probe_ > credits_completed_) next = std::min(next, probe_);
	check_completion(completion,
		{.opcode = end_.is_ud() ? IBV_WC_SEND : IBV_WC_RDMA_WRITE, .qp_num = end_.qp_num(), .wr_id = next}, "credit");
	if (next > credits_posted_) complain_of_unposted("credit", next, credits_posted_);
	credits_completed_ = next;
}

template <End E>
template <bool segmented>
Delivery ReceiverOn<E>::receive_sends(const Run& run, const Watcher& watcher) {
	Arrivals arrivals(clock_);
	bool sender_finished = false;
	std::uint64_t credited = 0;
	const bool ud = end_.is_ud();
	// RC brings every message once, so a damaged one was the last try.
	const auto arrived = [&] {
		return ud ? account_.delivered : std::min(run.total, account_.delivered + account_.corrupt + refused_);
	};
	const auto consumed = [&] { return ud ? account_.next() : arrived(); };

	while (arrived() < run.total) {
		const std::uint64_t before = account_.delivered;
		take_messages<segmented>();
		if (arrived() >= run.total) arrivals.all_came();
		if (credits_ &&
			(consumed() - credited >= end_.shape.credit_every || (consumed() == run.total && credited < run.total)) &&
			send_credit(run, consumed()))
			credited = consumed();
		if (account_.delivered != before) {
			arrivals.batch(account_.delivered);
			publish(account_.delivered);
			continue;
		}
		if (arrivals.idle() && arrivals.silent(ask(watcher, sender_finished))) break;
	}
	if (credits_ && credited < consumed())
		send_last_credit(run, consumed(), watcher, [this] { take_messages<segmented>(); });

	Delivery delivery{.delivered = account_.delivered,
		.duplicated = account_.duplicated,
		.reordered = account_.reordered,
		.corrupt = account_.corrupt + refused_,
		.stale = account_.stale};
	arrivals.fill(delivery);
	return delivery;
}

template <End E> Delivery ReceiverOn<E>::watch_writes(const Run& run, const Watcher& watcher) {
	Arrivals arrivals(clock_);
	bool sender_finished = false;
	std::uint64_t taken = 0, credited = 0;
	std::uint32_t slot = 0;
	Delivery delivery;
	Wait for_end;
	const std::uint32_t bytes = end_.cell.msg;
	const auto take_one = [&](bool whole) {
		++(whole ? delivery.delivered : delivery.corrupt);
		++taken;
		if (++slot == end_.slot_count) slot = 0;
	};

	while (taken < run.total) {
		const std::uint64_t before = taken;
		for (int i = 0; i < poll_batch && taken < run.total; ++i) {
			const std::byte* message = end_.slot_at(slot);
			const std::uint64_t stamp = make_stamp(run.number, taken);
			const std::uint64_t last = load_stamp(message + (bytes >= 16 ? bytes - 8 : 0));
			std::atomic_signal_fence(std::memory_order_acquire);
			if (last != (bytes >= 16 ? pattern_.tail(stamp) : stamp)) break;
			std::atomic_thread_fence(std::memory_order_acquire);
			take_one(is_whole(message, stamp));
			if (delay_ns_ != 0) [[unlikely]]
				delay();
		}
		if (taken == run.total) arrivals.all_came();
		if ((taken - credited >= end_.shape.credit_every || (taken == run.total && credited < taken)) &&
			send_credit(run, taken))
			credited = taken;
		if (taken != before) {
			for_end.restart();
			arrivals.batch(delivery.delivered);
			publish(delivery.delivered);
		}

		// These polls drive the target's queue pair and take the completions of the credits.
		take_credit_completions();
		if (taken != before || !arrivals.idle()) continue;
		if (arrivals.silent(ask(watcher, sender_finished))) break;
		if (bytes >= 16 && load_stamp(end_.slot_at(slot)) == make_stamp(run.number, taken) &&
			for_end.at(clock_.now()) > end_patience_ns) {
			for_end.restart();
			take_one(false);
		}
	}
	if (credited < taken) send_last_credit(run, taken, watcher, [this] { take_credit_completions(); });
	arrivals.fill(delivery);
	return delivery;
}

template <End E> bool ReceiverOn<E>::is_whole(const std::byte* message, std::uint64_t stamp) {
	if (pattern_.agrees(message, end_.cell.msg, stamp)) [[likely]]
		return true;
	Wait wait;
	do {
		std::atomic_thread_fence(std::memory_order_acquire);
		if (pattern_.agrees(message, end_.cell.msg, stamp)) return true;
	} while (wait.at(clock_.now()) < placement_ns);
	return false;
}

template <End E> Delivery ReceiverOn<E>::answer_reads(const Watcher& watcher) {
	bool sender_finished = false;
	for (std::uint32_t polls = 1; !sender_finished; ++polls) {
		if (passive_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
		else take_credit_completions();
		if (passive_ || polls % watch_every == 0) ask(watcher, sender_finished);
	}
	return {};
}

template <End E> bool ReceiverOn<E>::send_credit(const Run& run, std::uint64_t count) {
	if (credits_posted_ - credits_completed_ >= credits_outstanding_max) return false;
	const std::uint64_t number = credits_posted_ + 1;
	std::uint64_t& word = end_.words[number % Buffers::word_count];
	word = make_stamp(run.number, count);
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(&word), .length = sizeof word, .lkey = end_.lkey()};
	ibv_send_wr request{};
	request.wr_id = number;
	request.send_flags = number % credit_signal_every == 0 ? unsigned{IBV_SEND_SIGNALED} : 0u;
	if (end_.is_ud()) {
		request.opcode = IBV_WR_SEND_WITH_IMM;
		request.imm_data = htonl(make_credit_imm(run.number, count));
		request.wr.ud = {.ah = end_.address_handle(), .remote_qpn = end_.remote.qpn, .remote_qkey = end_.remote.qkey};
	} else {
		request.sg_list = &piece;
		request.num_sge = 1;
		request.opcode = IBV_WR_RDMA_WRITE;
		request.wr.rdma = {.remote_addr = end_.remote.credit_word, .rkey = end_.remote.data_rkey};
		if (end_.inline_max >= sizeof word) request.send_flags |= IBV_SEND_INLINE;
	}
	end_.post_sends(&request);
	credits_posted_ = number;
	return true;
}

template <End E>
template <class Take>
void ReceiverOn<E>::send_last_credit(
	const Run& run, std::uint64_t count, const Watcher& watcher, const Take& take_completions) {
	bool sender_finished = false;
	Wait wait;
	for (std::uint32_t polls = 1; !send_credit(run, count); ++polls) {
		take_completions();
		if (polls % watch_every != 0) continue;
		ask(watcher, sender_finished);
		if (wait.at(clock_.now()) > stall_ns) throw Failure("credit: no completion for 10 s");
	}
}

template <End E> void ReceiverOn<E>::probe() {
	if (probe_ > credits_completed_ || credits_posted_ - credits_completed_ >= credits_outstanding_max) return;
	ibv_send_wr request{};
	request.wr_id = credits_posted_ + 1;
	request.opcode = IBV_WR_RDMA_WRITE;
	request.send_flags = IBV_SEND_SIGNALED;
	request.wr.rdma = {.remote_addr = end_.remote.credit_word, .rkey = end_.remote.data_rkey};
	end_.post_sends(&request);
	probe_ = ++credits_posted_;
}

template <End E> void ReceiverOn<E>::delay() {
	const std::uint64_t until = clock_.now() + delay_ns_;
	while (clock_.now() < until) {}
}

template <End E>
void ReceiverOn<E>::serve(
	const std::function<void(const ibv_wc&, std::span<const std::byte>)>& take, const std::function<bool()>& go_on) {
	ibv_wc completions[poll_batch];
	do {
		const int n = end_.poll(completions);
		for (int i = 0; i < n; ++i) {
			if (!is_receive(completions[i])) {
				check_status(completions[i], "answer");
				continue;
			}
			check_completion(
				completions[i], {.opcode = IBV_WC_RECV, .qp_num = end_.qp_num(), .wr_id = next_receive_}, "receive");
			if (++next_receive_ == end_.receive_count) next_receive_ = 0;
			const std::uint32_t length = completions[i].byte_len - end_.grh_bytes();
			if (length > end_.receive_payload) complain_of_length("receive", completions[i].byte_len, end_.grh_bytes());
			take(completions[i], {end_.receive_at(static_cast<std::uint32_t>(completions[i].wr_id)), length});
		}
		if (n > 0) repost(completions, n);
	} while (go_on());
}

}  // namespace verbena::rcud
