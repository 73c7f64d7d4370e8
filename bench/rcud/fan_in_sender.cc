#include "bench/rcud/fan_in_sender.h"

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "bench/far_end/control.h"
#include "bench/rcud/completions.h"
#include "bench/rcud/fan_in_receiver.h"
#include "bench/rcud/patience.h"
#include "bench/rcud/stamps.h"

namespace verbena::rcud {
namespace {

// wr_id: the message above, its queue pair below; a receive for a credit has the mark.
constexpr int message_shift = 20;
constexpr std::uint64_t credit_mark = std::uint64_t{1} << 63;
constexpr std::uint32_t credit_stride = 128;  // bytes of a receive for a credit

}  // namespace

FanInSender::FanInSender(const lib::OpenDevice& device, const Cell& cell, const Shape& shape,
	std::uint32_t inline_wanted, std::uint32_t number, std::uint64_t* words, std::uint32_t psn)
	: device_(device),
	  cell_(cell),
	  shape_(shape),
	  number_(number),
	  own_(cell.qps / cell.senders),
	  room_(window_of_queue_pair(cell)),
	  credit_receives_(cell.mode == Mode::rc ? 0 : 64 + window_of_sender(cell) / shape.credit_every),
	  psn_(psn),
	  credits_(cell.window_mode == WindowMode::credit),
	  memory_(std::size_t{own_} * room_ * shape.stride + std::size_t{credit_receives_} * credit_stride),
	  credit_word_(reinterpret_cast<std::atomic<std::uint64_t>*>(words)),
	  in_flight_(own_),
	  slot_(own_),
	  sampled_at_(std::bit_ceil((window_of_sender(cell) + own_) / sample_every + 2)) {
	cq_ = take(lib::make_completion_queue(
		device.context.get(), static_cast<int>(window_of_sender(cell) + 1 + credit_receives_)));
	region_ =
		take(lib::make_memory_region(device.domain.get(), memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE));
	for (std::uint32_t i = 0; i < own_; ++i)
		qps_.push_back(make_one_of(device, cell, cq_.get(),
			{.type = is_ud() ? IBV_QPT_UD : IBV_QPT_RC,
				.send_depth = room_ + 1,
				.receive_depth = i == 0 ? std::max(1u, credit_receives_) : 1,
				.inline_wanted = inline_wanted},
			psn, i * cell.senders + number));
	ibv_qp_attr attributes{};
	ibv_qp_init_attr made{};
	if (ibv_query_qp(qps_.back().get(), &attributes, IBV_QP_CAP, &made) == 0 && cell.msg <= made.cap.max_inline_data)
		flags_ |= IBV_SEND_INLINE;
}

void FanInSender::connect(const FanInAddress& remote, std::span<const std::uint32_t> remote_qpns) {
	remote_ = remote;
	if (is_ud()) {
		ah_ = handle_to(device_, remote);
		remote_qpns_.assign(own_, remote_qpns.front());
		for (std::uint32_t i = 0; i < credit_receives_; ++i) post_credit_receive(i);
		return;
	}
	for (std::uint32_t i = 0; i < own_; ++i) {
		remote_qpns_.push_back(remote_qpns[i * cell_.senders + number_]);
		connect_one(qps_[i].get(), device_, cell_, remote, remote_qpns_[i], psn_, i * cell_.senders + number_);
	}
}

void FanInSender::post_credit_receive(std::uint64_t i) {
	std::byte* at = memory_.data() + std::size_t{own_} * room_ * shape_.stride + i * credit_stride;
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(at), .length = credit_stride, .lkey = region_->lkey};
	ibv_recv_wr request{.wr_id = credit_mark | i, .next = nullptr, .sg_list = &piece, .num_sge = 1};
	ibv_recv_wr* bad = nullptr;
	check_posted(ibv_post_recv(qps_.front().get(), &request, &bad), "ibv_post_recv");
}

// Posts this sender's message of that number to the queue pair whose turn it is.
void FanInSender::post(const Run& run, std::uint64_t message) {
	const std::uint32_t at = turn_;
	if (++turn_ == own_) turn_ = 0;
	++in_flight_[at];
	std::byte* slot = memory_.data() + (std::size_t{at} * room_ + slot_[at]) * shape_.stride;
	if (++slot_[at] == room_) slot_[at] = 0;
	write_stamps(slot, cell_.msg, make_stamp(run.number, message * cell_.senders + number_));
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(slot), .length = cell_.msg, .lkey = region_->lkey};
	ibv_send_wr request{};
	request.wr_id = message << message_shift | at;
	request.sg_list = &piece;
	request.num_sge = 1;
	request.opcode = IBV_WR_SEND;
	request.send_flags = flags_;
	if (is_ud()) request.wr.ud = {.ah = ah_.get(), .remote_qpn = remote_qpns_[at], .remote_qkey = remote_.qkey};
	if (message % sample_every == sample_every - 1) sampled_at_[samples_begun_++ & (sampled_at_.size() - 1)] = now_ns();
	ibv_send_wr* bad = nullptr;
	check_posted(ibv_post_send(qps_[at].get(), &request, &bad), "ibv_post_send");
}

void FanInSender::digest(const ibv_wc& completion, Sent& sent) {
	check_status(completion, "send");
	if ((completion.wr_id & credit_mark) != 0) {
		const std::uint64_t count = credit_count_of(ntohl(completion.imm_data), run_, sent.consumed);
		if (count <= sent.posted) sent.consumed = count;
		const std::uint64_t receive = completion.wr_id & ~credit_mark;
		if (receive >= credit_receives_) complain_of_unposted("receive of a credit", receive, credit_receives_);
		return post_credit_receive(receive);
	}
	const std::uint64_t at = completion.wr_id & ((1u << message_shift) - 1);
	const std::uint64_t message = completion.wr_id >> message_shift;
	if (at >= own_ || in_flight_[at] == 0 || message >= sent.posted) [[unlikely]]
		complain_of_unposted("send", message, sent.posted);
	--in_flight_[at];
	++sent.completed;
	if (credits_ || message % sample_every != sample_every - 1) return;
	sent.latency_ns.record(now_ns() - sampled_at_[message / sample_every & (sampled_at_.size() - 1)]);
}

// RC: the receiver writes its credits into memory.
void FanInSender::read_credit_word(Sent& sent) {
	// The peer is untrusted: ignore a count above the number posted.
	const std::uint64_t credit = credit_word_->load(std::memory_order_acquire);
	const std::uint64_t count = sequence_of(credit);
	if (run_of(credit) == run_ && count > sent.consumed && count <= sent.posted) sent.consumed = count;
}

// With credits: the latency of the samples among the first `known` messages.
void FanInSender::take_samples_below(std::uint64_t known, Histogram& latency) {
	if (samples_taken_ == samples_begun_ || (samples_taken_ + 1) * sample_every > known) return;
	const std::uint64_t now = now_ns();
	for (; samples_taken_ != samples_begun_ && (samples_taken_ + 1) * sample_every <= known; ++samples_taken_)
		latency.record(now - sampled_at_[samples_taken_ & (sampled_at_.size() - 1)]);
}

void FanInSender::run(const Run& run, const Watcher& watcher, Sent& sent) {
	sent = {};
	run_ = run.number;
	turn_ = 0;
	samples_taken_ = samples_begun_ = 0;
	credit_word_->store(0, std::memory_order_relaxed);
	const std::uint64_t total = share_of(run.total, cell_.senders, number_), window = window_of_sender(cell_);
	const std::uint64_t start = now_ns();
	ibv_wc completions[poll_batch];
	std::uint32_t idle_polls = 0, busy_polls = 0;
	Wait wait;
	bool receiver_idle = false;

	while (sent.completed < total || (credits_ && sent.consumed < total)) {
		while (sent.posted < total && sent.posted - sent.completed < window &&
			(!credits_ || sent.posted - sent.consumed < window) && in_flight_[turn_] < room_) {
			post(run, sent.posted);
			++sent.posted;
		}
		const std::uint64_t completed_before = sent.completed, consumed_before = sent.consumed;
		const int n = poll(cq_.get(), completions);
		for (int i = 0; i < n; ++i) digest(completions[i], sent);
		if (credits_ && !is_ud()) read_credit_word(sent);
		if (credits_) take_samples_below(sent.consumed, sent.latency_ns);
		if (sent.completed != completed_before || sent.consumed != consumed_before) {
			idle_polls = 0;
			wait.restart();
			receiver_idle = false;
			if (++busy_polls % watch_every == 0 && watcher(false) == Watch::abandon) throw Failure(bench::peer_gave_up);
			continue;
		}

		if (++idle_polls % watch_every != 0) continue;
		const std::uint64_t waited = wait.at(now_ns());
		const bool all_completed = sent.posted == sent.completed;
		// As in Sender: missing UD credits mean lost messages only if the receiver is idle.
		const bool silent = credits_ && is_ud() && all_completed && waited > silence_ns;
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
	sent.took_ns = now_ns() - start;
}

}  // namespace verbena::rcud
