// SPDX-License-Identifier: Apache-2.0
// The definitions of sender.h. An end that is not an Endpoint includes this file, and instantiates
// SenderOn with itself.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "bench/far_end/control.h"
#include "bench/rcud/completions.h"
#include "bench/rcud/reassembly.h"
#include "bench/rcud/sender.h"
#include "bench/rcud/stamps.h"

namespace verbena::rcud {

inline constexpr std::uint64_t without_limit = UINT64_MAX / 2;

inline unsigned inline_if_it_fits(const Buffers& end) {
	return end.cell.op != Op::read && end.shape.fragments == 1 && end.cell.msg <= end.inline_max
		? unsigned{IBV_SEND_INLINE}
		: 0u;
}

inline constexpr ibv_wc_opcode completion_opcode(Op op) {
	return op == Op::write ? IBV_WC_RDMA_WRITE : op == Op::read ? IBV_WC_RDMA_READ : IBV_WC_SEND;
}

template <End E>
SenderOn<E>::SenderOn(E& end)
	: end_(end),
	  clock_(end),
	  credit_limit_(end_.cell.op == Op::write                                           ? end_.shape.ring_slots
			  : end_.cell.window_mode == WindowMode::credit && end_.cell.op == Op::send ? end_.cell.window
																						: without_limit),
	  credits_(credit_limit_ != without_limit),
	  credits_by_datagram_(credits_ && end_.is_ud()),
	  base_flags_(inline_if_it_fits(end_)),
	  requests_(std::size_t{end_.shape.post_list} * end_.shape.fragments),
	  pieces_(requests_.size() * 2),
	  samples_(std::bit_ceil(end_.cell.window / sample_every + 2)) {
	for (std::size_t i = 0; i < requests_.size(); ++i) {
		ibv_send_wr& request = requests_[i];
		request = {};
		request.sg_list = &pieces_[i * 2];
		request.num_sge = end_.shape.fragments > 1 ? 2 : 1;
		request.next = i + 1 < requests_.size() ? &requests_[i + 1] : nullptr;
		request.opcode = end_.cell.op == Op::write ? IBV_WR_RDMA_WRITE
			: end_.cell.op == Op::read             ? IBV_WR_RDMA_READ
												   : IBV_WR_SEND;
		if (end_.is_ud())
			request.wr.ud = {
				.ah = end_.address_handle(), .remote_qpn = end_.remote.qpn, .remote_qkey = end_.remote.qkey};
		else request.wr.rdma.rkey = end_.remote.data_rkey;
		pieces_[i * 2] = {.addr = 0, .length = end_.cell.msg, .lkey = end_.lkey()};
	}
}

template <End E> void SenderOn<E>::post_receives() {
	if (!end_.is_ud()) return;
	for (std::uint32_t i = 0; i < end_.receive_count; ++i) post_receive(i);
}

template <End E> void SenderOn<E>::post_receive(std::uint32_t index) {
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(end_.receive_at(index) - end_.grh_bytes()),
		.length = end_.receive_payload + end_.grh_bytes(),
		.lkey = end_.lkey()};
	ibv_recv_wr request{.wr_id = index, .next = nullptr, .sg_list = &piece, .num_sge = 1};
	end_.post_receives(&request);
}

template <End E> void SenderOn<E>::run(const Run& run, const Watcher& watcher, Sent& sent) {
	sent = {};
	run_ = run.number;
	pattern_ = Pattern(run.seed);
	// No slot is in use between runs, and the target begins at its first slot too.
	slot_ = remote_slot_ = read_slot_ = 0;
	until_signal_ = end_.shape.signal_every;
	sample_head_ = sample_tail_ = 0;
	next_sample_ = sample_every - 1;
	if (run.total == 0) return;
	const std::uint64_t start = clock_.now();
	run_loop(run, watcher, sent);
	sent.took_ns = clock_.now() - start;
}

template <End E> void SenderOn<E>::run_loop(const Run& run, const Watcher& watcher, Sent& sent) {
	switch (end_.cell.op) {
		case Op::write: return loop<Op::write, false>(run, watcher, sent);
		case Op::read: return loop<Op::read, false>(run, watcher, sent);
		case Op::send:
			return end_.shape.fragments > 1 ? loop<Op::send, true>(run, watcher, sent)
											: loop<Op::send, false>(run, watcher, sent);
	}
}

template <End E>
template <Op op, bool segmented>
void SenderOn<E>::post(const Run& run, std::uint64_t first, std::uint32_t count) {
	ibv_send_wr* request = requests_.data();
	for (std::uint32_t i = 0; i < count; ++i) {
		const std::uint64_t sequence = first + i;
		const bool last_of_run = sequence + 1 == run.total;
		unsigned signaled = 0;
		if (--until_signal_ == 0 || last_of_run) {
			signaled = IBV_SEND_SIGNALED;
			until_signal_ = end_.shape.signal_every;
		}
		std::byte* slot = end_.slot_at(slot_);
		const std::uint64_t stamp = make_stamp(run.number, sequence);
		// READ: bytes that are not read must be noticed.
		if constexpr (op == Op::read) pattern_.spoil(slot, end_.cell.msg);
		else pattern_.write(slot, end_.cell.msg, stamp);

		if constexpr (segmented) {
			post_fragments(request, slot, stamp);
			for (std::uint32_t index = 0; index < end_.shape.fragments; ++index, ++request) {
				request->wr_id = sequence + 1;
				request->send_flags = index + 1 == end_.shape.fragments ? signaled : 0;
			}
		} else {
			request->sg_list->addr = reinterpret_cast<std::uint64_t>(slot);
			request->wr_id = sequence + 1;
			request->send_flags = base_flags_ | signaled;
			if constexpr (op != Op::send) {
				request->wr.rdma.remote_addr = end_.remote.data + std::uint64_t{remote_slot_} * end_.shape.stride;
				if (++remote_slot_ == end_.shape.ring_slots) remote_slot_ = 0;
			}
			++request;
		}
		if (++slot_ == end_.slot_count) slot_ = 0;
	}

	if (sample_tail_ - sample_head_ < samples_.size() && first + count > next_sample_) {
		samples_[sample_tail_++ & (samples_.size() - 1)] = {
			.sequence = std::max(first, next_sample_), .posted_at = clock_.now()};
		next_sample_ = first + count + sample_every - 1;
	}
	// The list may be shorter than usual: end it here for this post, and link it again afterwards.
	ibv_send_wr* last = request - 1;
	ibv_send_wr* rest = last->next;
	last->next = nullptr;
	end_.post_sends(requests_.data());
	last->next = rest;
}

template <End E> void SenderOn<E>::post_fragments(ibv_send_wr* requests, std::byte* slot, std::uint64_t stamp) {
	std::uint32_t offset = 0;
	for (std::uint32_t index = 0; index < end_.shape.fragments; ++index) {
		const std::uint32_t bytes = std::min(end_.shape.fragment_bytes, end_.cell.msg - offset);
		const FragmentHeader header{.stamp = stamp,
			.index = static_cast<std::uint16_t>(index),
			.count = static_cast<std::uint16_t>(end_.shape.fragments),
			.offset = offset};
		std::byte* at = end_.headers + (std::size_t{slot_} * end_.shape.fragments + index) * sizeof header;
		std::memcpy(at, &header, sizeof header);
		ibv_sge* pieces = requests[index].sg_list;
		pieces[0] = {.addr = reinterpret_cast<std::uint64_t>(at), .length = sizeof header, .lkey = end_.lkey()};
		pieces[1] = {.addr = reinterpret_cast<std::uint64_t>(slot + offset), .length = bytes, .lkey = end_.lkey()};
		offset += bytes;
	}
}

template <End E> template <Op op> void SenderOn<E>::digest(const ibv_wc& completion, const Run& run, Sent& sent) {
	if (is_receive(completion) && completion.status == IBV_WC_SUCCESS && end_.is_ud())
		return take_credit(completion, sent);
	// Every signal_every-th message and the last one are signaled.
	const std::uint64_t next = std::min(sent.completed + end_.shape.signal_every, run.total);
	check_completion(
		completion, {.opcode = completion_opcode(op), .qp_num = end_.qp_num(), .wr_id = next}, name_of(op));
	if (next > sent.posted) [[unlikely]]
		complain_of_unposted(name_of(op), next, sent.posted);
	if constexpr (op == Op::read) {
		if (completion.byte_len != end_.cell.msg) [[unlikely]]
			complain_of_length(name_of(op), completion.byte_len, end_.cell.msg);
		verify_reads(sent.completed, next, sent.read);
	}
	sent.completed = next;
}

template <End E> void SenderOn<E>::take_credit(const ibv_wc& completion, Sent& sent) {
	check_completion(
		completion, {.opcode = IBV_WC_RECV, .qp_num = end_.qp_num(), .wr_id = next_receive_}, "receive of a credit");
	// Any datagram may arrive, so this one need not be a credit.
	if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) {
		const std::uint64_t count = credit_count_of(ntohl(completion.imm_data), run_, sent.consumed);
		if (count <= sent.posted) sent.consumed = count;
	}
	post_receive(next_receive_);
	if (++next_receive_ == end_.receive_count) next_receive_ = 0;
}

template <End E> void SenderOn<E>::verify_reads(std::uint64_t from, std::uint64_t to, Delivery& read) {
	for (; from < to; ++from) {
		// The target's ring is as long as ours; each of its slots holds its own index as the
		// sequence number.
		const bool right = pattern_.agrees(end_.slot_at(read_slot_), end_.cell.msg, make_stamp(run_, read_slot_));
		++(right ? read.delivered : read.corrupt);
		if (++read_slot_ == end_.slot_count) read_slot_ = 0;
	}
}

template <End E> void SenderOn<E>::take_samples(std::uint64_t known, Histogram& latency) {
	if (sample_head_ == sample_tail_ || samples_[sample_head_ & (samples_.size() - 1)].sequence >= known) return;
	const std::uint64_t now = clock_.now();
	while (sample_head_ != sample_tail_) {
		const Sample& sample = samples_[sample_head_ & (samples_.size() - 1)];
		if (sample.sequence >= known) return;
		latency.record(now - sample.posted_at);
		++sample_head_;
	}
}

template <End E>
template <Op op, bool segmented>
void SenderOn<E>::loop(const Run& run, const Watcher& watcher, Sent& sent) {
	const std::uint64_t window = end_.cell.window;
	const bool latency_by_credit = end_.cell.window_mode == WindowMode::credit && credits_;
	auto* credit_word = reinterpret_cast<std::atomic<std::uint64_t>*>(end_.words);
	credit_word->store(0, std::memory_order_relaxed);
	ibv_wc completions[poll_batch];

	std::uint32_t idle_polls = 0, busy_polls = 0;
	std::uint64_t first_at = 0, first_count = 0;
	Wait wait;
	bool receiver_idle = false;

	while (sent.completed < run.total || (credits_ && sent.consumed < run.total)) {
		while (sent.posted < run.total) {
			const auto count =
				static_cast<std::uint32_t>(std::min<std::uint64_t>(end_.shape.post_list, run.total - sent.posted));
			if (sent.posted + count - sent.completed > window || sent.posted + count - sent.consumed > credit_limit_)
				break;
			post<op, segmented>(run, sent.posted, count);
			sent.posted += count;
		}

		const std::uint64_t completed_before = sent.completed, consumed_before = sent.consumed;
		const int n = end_.poll(completions);
		for (int i = 0; i < n; ++i) digest<op>(completions[i], run, sent);
		if (credits_ && !credits_by_datagram_) {
			// The peer is untrusted: ignore a count above the number posted.
			const std::uint64_t credit = credit_word->load(std::memory_order_acquire);
			const std::uint64_t count = sequence_of(credit);
			if (run_of(credit) == run.number && count > sent.consumed && count <= sent.posted) sent.consumed = count;
		}

		if (sent.completed == completed_before && sent.consumed == consumed_before) {
			if (++idle_polls % watch_every != 0) continue;
			const std::uint64_t waited = wait.at(clock_.now());
			const bool all_but_unsignaled = sent.posted - sent.completed < end_.shape.signal_every;
			const bool silent = credits_by_datagram_ && all_but_unsignaled && waited > silence_ns;
			// Missing UD credits mean lost messages, unless the receiver is only slow or stopped,
			// so end the run only if the receiver has answered that it is idle.
			if (silent && receiver_idle) break;
			const Watch seen = watcher(silent);
			if (seen == Watch::abandon) throw Failure(bench::peer_gave_up);
			if (seen == Watch::finished && all_but_unsignaled) break;
			if (seen == Watch::receiver_idle) {
				receiver_idle = true;
				wait.restart();  // a last credit may still arrive
			}
			if (waited > stall_ns) throw Failure("no progress for 10 s");
			continue;
		}
		idle_polls = 0;
		wait.restart();
		receiver_idle = false;
		take_samples(latency_by_credit ? sent.consumed : sent.completed, sent.latency_ns);
		if constexpr (op == Op::read) {
			if (first_at == 0) {
				first_at = clock_.now();
				first_count = sent.read.delivered;
			}
		}
		if (++busy_polls % watch_every == 0 && watcher(false) == Watch::abandon) throw Failure(bench::peer_gave_up);
	}
	if constexpr (op == Op::read) {
		sent.read.counted = sent.read.delivered - first_count;
		sent.read.counted_ns = clock_.now() - first_at;
	}
}

}  // namespace verbena::rcud
