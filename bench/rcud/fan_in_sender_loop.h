// SPDX-License-Identifier: Apache-2.0
// The definitions of fan_in_sender.h. An end that is not a FanInSenderEndpoint includes this file,
// and instantiates FanInSenderOn with itself.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "bench/far_end/control.h"
#include "bench/rcud/completions.h"
#include "bench/rcud/fan_in_sender.h"
#include "bench/rcud/stamps.h"

namespace verbena::rcud {

// wr_id: the message above, its queue pair below; a receive for a credit has the mark.
inline constexpr int fan_in_message_shift = 20;
inline constexpr std::uint64_t fan_in_receive_mark = std::uint64_t{1} << 63;

template <FanInEnd E>
FanInSenderOn<E>::FanInSenderOn(E& end)
	: end_(end),
	  clock_(end),
	  credits_(end.cell.window_mode == WindowMode::credit),
	  flags_(IBV_SEND_SIGNALED | (end.sends_inline ? unsigned{IBV_SEND_INLINE} : 0u)),
	  lanes_(end.own),
	  sampled_at_(std::bit_ceil((window_of_sender(end.cell) + end.own) / sample_every + 2)) {}

template <FanInEnd E> void FanInSenderOn<E>::post_receives() {
	for (std::uint32_t i = 0; i < end_.credit_receives; ++i) post_receive(i);
}

template <FanInEnd E> void FanInSenderOn<E>::post_receive(std::uint32_t i) {
	ibv_sge piece{
		.addr = reinterpret_cast<std::uint64_t>(end_.credit_at(i)), .length = E::credit_bytes, .lkey = end_.lkey()};
	ibv_recv_wr request{.wr_id = fan_in_receive_mark | i, .next = nullptr, .sg_list = &piece, .num_sge = 1};
	end_.post_receives(&request);
}

// Posts this sender's message of that number to the queue pair whose turn it is.
template <FanInEnd E> void FanInSenderOn<E>::post(std::uint64_t message) {
	const std::uint32_t at = turn_;
	if (++turn_ == end_.own) turn_ = 0;
	Lane& lane = lanes_[at];
	++lane.in_flight;
	std::byte* slot = end_.slot_at(at, lane.slot);
	if (++lane.slot == end_.room) lane.slot = 0;
	pattern_.write(slot, end_.cell.msg, make_stamp(run_, message * end_.cell.senders + end_.number));
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(slot), .length = end_.cell.msg, .lkey = end_.lkey()};
	ibv_send_wr request{};
	request.wr_id = message << fan_in_message_shift | at;
	request.sg_list = &piece;
	request.num_sge = 1;
	request.opcode = IBV_WR_SEND;
	request.send_flags = flags_;
	if (end_.is_ud())
		request.wr.ud = {
			.ah = end_.address_handle(), .remote_qpn = end_.remote_qpn(at), .remote_qkey = end_.remote().qkey};
	if (message % sample_every == sample_every - 1)
		sampled_at_[samples_begun_++ & (sampled_at_.size() - 1)] = clock_.now();
	end_.post_send(at, request);
}

template <FanInEnd E> void FanInSenderOn<E>::digest(const ibv_wc& completion, Sent& sent) {
	check_status(completion, "send");
	if (is_receive(completion)) return take_credit(completion, sent);
	std::uint32_t at = completion.wr_id & ((1u << fan_in_message_shift) - 1);
	if (at >= end_.own) [[unlikely]]
		at = 0;  // not the number of a queue pair, so it differs from that of the first one too
	Lane& lane = lanes_[at];
	check_completion(completion, {.opcode = IBV_WC_SEND, .qp_num = end_.qp_num(at), .wr_id = lane.next}, "send");
	const std::uint64_t message = completion.wr_id >> fan_in_message_shift;
	if (lane.in_flight == 0) [[unlikely]]
		complain_of_unposted("send", message, sent.posted);
	lane.next += std::uint64_t{end_.own} << fan_in_message_shift;
	--lane.in_flight;
	++sent.completed;
	if (credits_ || message % sample_every != sample_every - 1) return;
	sent.latency_ns.record(clock_.now() - sampled_at_[message / sample_every & (sampled_at_.size() - 1)]);
}

template <FanInEnd E> void FanInSenderOn<E>::take_credit(const ibv_wc& completion, Sent& sent) {
	check_completion(completion,
		{.opcode = IBV_WC_RECV, .qp_num = end_.qp_num(0), .wr_id = fan_in_receive_mark | next_receive_},
		"receive of a credit");
	// A datagram without a number is no credit.
	if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) {
		const std::uint64_t count = credit_count_of(ntohl(completion.imm_data), run_, sent.consumed);
		if (count <= sent.posted) sent.consumed = count;
	}
	post_receive(next_receive_);
	if (++next_receive_ == end_.credit_receives) next_receive_ = 0;
}

// RC: the receiver writes its credits into memory.
template <FanInEnd E> void FanInSenderOn<E>::read_credit_word(Sent& sent) {
	// The peer is untrusted: ignore a count above the number posted.
	const std::uint64_t credit = end_.credit_word->load(std::memory_order_acquire);
	const std::uint64_t count = sequence_of(credit);
	if (run_of(credit) == run_ && count > sent.consumed && count <= sent.posted) sent.consumed = count;
}

// With credits: the latency of the samples among the first `known` messages.
template <FanInEnd E> void FanInSenderOn<E>::take_samples_below(std::uint64_t known, Histogram& latency) {
	if (samples_taken_ == samples_begun_ || (samples_taken_ + 1) * sample_every > known) return;
	const std::uint64_t now = clock_.now();
	for (; samples_taken_ != samples_begun_ && (samples_taken_ + 1) * sample_every <= known; ++samples_taken_)
		latency.record(now - sampled_at_[samples_taken_ & (sampled_at_.size() - 1)]);
}

template <FanInEnd E> void FanInSenderOn<E>::run(const Run& run, const Watcher& watcher, Sent& sent) {
	sent = {};
	run_ = run.number;
	pattern_ = Pattern(run.seed);
	turn_ = 0;
	samples_taken_ = samples_begun_ = 0;
	// Nothing is in flight between runs.
	for (std::uint64_t at = 0; at < lanes_.size(); ++at) lanes_[at].next = at << fan_in_message_shift | at;
	end_.credit_word->store(0, std::memory_order_relaxed);
	const std::uint64_t total = share_of(run.total, end_.cell.senders, end_.number);
	const std::uint64_t window = window_of_sender(end_.cell);
	const std::uint64_t start = clock_.now();
	ibv_wc completions[poll_batch];
	std::uint32_t idle_polls = 0, busy_polls = 0;
	Wait wait;
	bool receiver_idle = false;

	while (sent.completed < total || (credits_ && sent.consumed < total)) {
		while (sent.posted < total && sent.posted - sent.completed < window &&
			(!credits_ || sent.posted - sent.consumed < window) && lanes_[turn_].in_flight < end_.room) {
			post(sent.posted);
			++sent.posted;
		}
		const std::uint64_t completed_before = sent.completed, consumed_before = sent.consumed;
		const int n = end_.poll(completions);
		for (int i = 0; i < n; ++i) digest(completions[i], sent);
		if (credits_ && !end_.is_ud()) read_credit_word(sent);
		if (credits_) take_samples_below(sent.consumed, sent.latency_ns);
		if (sent.completed != completed_before || sent.consumed != consumed_before) {
			idle_polls = 0;
			wait.restart();
			receiver_idle = false;
			if (++busy_polls % watch_every == 0 && watcher(false) == Watch::abandon) throw Failure(bench::peer_gave_up);
			continue;
		}

		if (++idle_polls % watch_every != 0) continue;
		const std::uint64_t waited = wait.at(clock_.now());
		const bool all_completed = sent.posted == sent.completed;
		// As in Sender: missing UD credits mean lost messages only if the receiver is idle.
		const bool silent = credits_ && end_.is_ud() && all_completed && waited > silence_ns;
		if (silent && receiver_idle) break;
		const Watch seen = watcher(silent);
		if (seen == Watch::abandon) throw Failure(bench::peer_gave_up);
		if (seen == Watch::finished && all_completed) break;
		if (seen == Watch::receiver_idle) {
			receiver_idle = true;
			wait.restart();  // a last credit may still arrive
			continue;
		}
		if (waited > stall_ns) throw Failure("no progress for 10 s");
	}
	sent.took_ns = clock_.now() - start;
}

}  // namespace verbena::rcud
