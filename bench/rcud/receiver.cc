#include "bench/rcud/receiver.h"

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "bench/rcud/arrivals.h"

namespace verbena::rcud {
namespace {

// One credit in 16 is signaled, because its completion frees the send-queue entries up to it. At
// most this many credits may be under way.
constexpr std::uint64_t credit_signal_every = 16;
constexpr std::uint64_t credits_outstanding_max = Endpoint::word_count - 1;

}  // namespace

Receiver::Receiver(Endpoint& endpoint, std::uint32_t delay_ns, bool passive, std::atomic<std::uint64_t>* published)
	: end_(endpoint),
	  delay_ns_(delay_ns),
	  passive_(passive),
	  credits_(end_.cell.op == Op::write || (end_.cell.op == Op::send && end_.cell.window_mode == WindowMode::credit)),
	  published_(published),
	  requests_(end_.receive_count),
	  pieces_(end_.receive_count) {
	if (end_.shape.fragments > 1) reassembly_.emplace(end_.cell.window, end_.cell.msg, end_.shape.fragments);
	for (std::uint32_t i = 0; i < end_.receive_count; ++i) {
		pieces_[i] = {.addr = reinterpret_cast<std::uint64_t>(end_.receive_at(i) - end_.grh_bytes()),
			.length = end_.receive_payload + end_.grh_bytes(),
			.lkey = end_.memory->lkey};
		requests_[i] = {.wr_id = i, .next = nullptr, .sg_list = &pieces_[i], .num_sge = 1};
	}
	if (end_.cell.op == Op::read)
		for (std::uint32_t slot = 0; slot < end_.slot_count; ++slot)
			write_stamps(end_.slot_at(slot), end_.cell.msg, make_stamp(0, slot));
}

void Receiver::post_receives() {
	if (end_.cell.op != Op::send) return;
	for (std::uint32_t i = 0; i < end_.receive_count; ++i)
		requests_[i].next = i + 1 < end_.receive_count ? &requests_[i + 1] : nullptr;
	ibv_recv_wr* bad = nullptr;
	check_posted(ibv_post_recv(end_.qp.get(), requests_.data(), &bad), "ibv_post_recv");
}

Delivery Receiver::run(const Run& run, const Watcher& watcher) {
	account_.begin(run.number);
	refused_ = 0;
	switch (end_.cell.op) {
		case Op::write: return watch_writes(run, watcher);
		case Op::read: return answer_reads(watcher);
		case Op::send: break;
	}
	return reassembly_ ? receive_sends<true>(run, watcher) : receive_sends<false>(run, watcher);
}

template <bool segmented> void Receiver::accept(const ibv_wc& completion) {
	const std::byte* bytes = end_.receive_at(static_cast<std::uint32_t>(completion.wr_id));
	const std::uint32_t length = completion.byte_len - end_.grh_bytes();
	if constexpr (segmented) {
		std::span<const std::byte> message;
		switch (reassembly_->accept({bytes, length}, message)) {
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
void Receiver::repost(const ibv_wc* completions, int count) {
	ibv_recv_wr* list = nullptr;
	for (int i = count - 1; i >= 0; --i) {
		if ((completions[i].opcode & IBV_WC_RECV) == 0) continue;
		ibv_recv_wr& request = requests_[completions[i].wr_id];
		request.next = list;
		list = &request;
	}
	if (list == nullptr) return;
	ibv_recv_wr* bad = nullptr;
	check_posted(ibv_post_recv(end_.qp.get(), list, &bad), "ibv_post_recv");
}

template <bool segmented> Delivery Receiver::receive_sends(const Run& run, const Watcher& watcher) {
	Arrivals arrivals;
	bool sender_finished = false;
	std::uint64_t credited = 0;
	ibv_wc completions[poll_batch];
	const auto consumed = [&] { return end_.is_ud() ? account_.next() : account_.delivered; };

	while (account_.delivered < run.total) {
		const int n = poll(end_.cq.get(), completions);
		const std::uint64_t before = account_.delivered;
		for (int i = 0; i < n; ++i) {
			check_status(completions[i], "receive");
			if ((completions[i].opcode & IBV_WC_RECV) != 0) accept<segmented>(completions[i]);
			else credits_completed_ = completions[i].wr_id;
		}
		if (n > 0) repost(completions, n);
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
	if (account_.delivered == run.total) arrivals.all_came();
	while (credits_ && credited < consumed() && !send_credit(run, consumed())) {
		for (int n = poll(end_.cq.get(), completions), i = 0; i < n; ++i) {
			check_status(completions[i], "credit");
			if ((completions[i].opcode & IBV_WC_RECV) == 0) credits_completed_ = completions[i].wr_id;
		}
	}

	Delivery delivery{.delivered = account_.delivered,
		.duplicated = account_.duplicated,
		.reordered = account_.reordered,
		.corrupt = account_.corrupt + refused_,
		.stale = account_.stale};
	arrivals.fill(delivery);
	return delivery;
}

Delivery Receiver::watch_writes(const Run& run, const Watcher& watcher) {
	Arrivals arrivals;
	bool sender_finished = false;
	std::uint64_t taken = 0, credited = 0;
	std::uint32_t slot = 0;
	Delivery delivery;
	ibv_wc completions[poll_batch];

	while (taken < run.total) {
		const std::uint64_t before = taken;
		for (int i = 0; i < poll_batch && taken < run.total; ++i) {
			const std::byte* message = end_.slot_at(slot);
			const std::uint64_t expected = make_stamp(run.number, taken);
			std::uint64_t last;
			std::memcpy(&last, message + (end_.cell.msg >= 16 ? end_.cell.msg - 8 : 0), sizeof last);
			std::atomic_signal_fence(std::memory_order_acquire);
			if (last != expected) break;
			std::atomic_thread_fence(std::memory_order_acquire);
			++(load_stamp(message) == expected ? delivery.delivered : delivery.corrupt);
			++taken;
			if (++slot == end_.slot_count) slot = 0;
			if (delay_ns_ != 0) [[unlikely]]
				delay();
		}
		if ((taken - credited >= end_.shape.credit_every || (taken == run.total && credited < taken)) &&
			send_credit(run, taken))
			credited = taken;
		if (taken != before) {
			arrivals.batch(delivery.delivered);
			publish(delivery.delivered);
		}

		// These polls drive the target's queue pair and take the completions of the credits.
		const int n = poll(end_.cq.get(), completions);
		for (int i = 0; i < n; ++i) {
			check_status(completions[i], "credit");
			credits_completed_ = completions[i].wr_id;
		}
		if (taken == before && arrivals.idle() && arrivals.silent(ask(watcher, sender_finished))) break;
	}
	if (taken == run.total) arrivals.all_came();
	while (credited < taken && !send_credit(run, taken)) {
		for (int n = poll(end_.cq.get(), completions), i = 0; i < n; ++i) {
			check_status(completions[i], "credit");
			credits_completed_ = completions[i].wr_id;
		}
	}
	arrivals.fill(delivery);
	return delivery;
}

Delivery Receiver::answer_reads(const Watcher& watcher) {
	ibv_wc completions[poll_batch];
	bool sender_finished = false;
	for (std::uint32_t polls = 1; !sender_finished; ++polls) {
		if (passive_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
		else if (poll(end_.cq.get(), completions) > 0) {
			check_status(completions[0], "read target");
			credits_completed_ = completions[0].wr_id;
		}
		if (passive_ || polls % watch_every == 0) ask(watcher, sender_finished);
	}
	return {};
}

bool Receiver::send_credit(const Run& run, std::uint64_t count) {
	if (credits_posted_ - credits_completed_ >= credits_outstanding_max) return false;
	const std::uint64_t number = credits_posted_ + 1;
	std::uint64_t& word = end_.words[number % Endpoint::word_count];
	word = make_stamp(run.number, count);
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(&word), .length = sizeof word, .lkey = end_.memory->lkey};
	ibv_send_wr request{};
	request.wr_id = number;
	request.send_flags = number % credit_signal_every == 0 ? unsigned{IBV_SEND_SIGNALED} : 0u;
	if (end_.is_ud()) {
		request.opcode = IBV_WR_SEND_WITH_IMM;
		request.imm_data = htonl(make_credit_imm(run.number, count));
		request.wr.ud = {.ah = end_.ah.get(), .remote_qpn = end_.remote.qpn, .remote_qkey = end_.remote.qkey};
	} else {
		request.sg_list = &piece;
		request.num_sge = 1;
		request.opcode = IBV_WR_RDMA_WRITE;
		request.wr.rdma = {.remote_addr = end_.remote.credit_word, .rkey = end_.remote.data_rkey};
		if (end_.inline_max >= sizeof word) request.send_flags |= IBV_SEND_INLINE;
	}
	ibv_send_wr* bad = nullptr;
	check_posted(ibv_post_send(end_.qp.get(), &request, &bad), "ibv_post_send");
	credits_posted_ = number;
	return true;
}

void Receiver::probe() {
	if (probe_ > credits_completed_ || credits_posted_ - credits_completed_ >= credits_outstanding_max) return;
	ibv_send_wr request{};
	request.wr_id = credits_posted_ + 1;
	request.opcode = IBV_WR_RDMA_WRITE;
	request.send_flags = IBV_SEND_SIGNALED;
	request.wr.rdma = {.remote_addr = end_.remote.credit_word, .rkey = end_.remote.data_rkey};
	ibv_send_wr* bad = nullptr;
	check_posted(ibv_post_send(end_.qp.get(), &request, &bad), "ibv_post_send");
	probe_ = ++credits_posted_;
}

void Receiver::delay() const {
	const std::uint64_t until = now_ns() + delay_ns_;
	while (now_ns() < until) {}
}

void Receiver::serve(
	const std::function<void(const ibv_wc&, std::span<const std::byte>)>& take, const std::function<bool()>& go_on) {
	ibv_wc completions[poll_batch];
	do {
		const int n = poll(end_.cq.get(), completions);
		for (int i = 0; i < n; ++i) {
			if ((completions[i].opcode & IBV_WC_RECV) == 0) {
				check_status(completions[i], "answer");
				continue;
			}
			check_status(completions[i], "receive");
			take(completions[i],
				{end_.receive_at(static_cast<std::uint32_t>(completions[i].wr_id)),
					completions[i].byte_len - end_.grh_bytes()});
		}
		if (n > 0) repost(completions, n);
	} while (go_on());
}

}  // namespace verbena::rcud
