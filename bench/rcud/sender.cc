#include "bench/rcud/sender.h"

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <bit>

#include "bench/far_end/control.h"
#include "bench/rcud/reassembly.h"
#include "bench/rcud/stamps.h"

namespace verbena::rcud {
namespace {

constexpr std::uint64_t without_limit = UINT64_MAX / 2;

unsigned inline_if_it_fits(const Endpoint& end) {
	return end.cell.op != Op::read && end.shape.fragments == 1 && end.cell.msg <= end.inline_max
		? unsigned{IBV_SEND_INLINE}
		: 0u;
}

}  // namespace

Sender::Sender(Endpoint& endpoint)
	: end_(endpoint),
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
			request.wr.ud = {.ah = end_.ah.get(), .remote_qpn = end_.remote.qpn, .remote_qkey = end_.remote.qkey};
		else request.wr.rdma.rkey = end_.remote.data_rkey;
		pieces_[i * 2] = {.addr = 0, .length = end_.cell.msg, .lkey = end_.memory->lkey};
		pieces_[i * 2 + 1] = pieces_[i * 2];
	}
}

void Sender::post_receives() {
	if (!end_.is_ud()) return;
	for (std::uint32_t i = 0; i < end_.receive_count; ++i) {
		ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(end_.receive_at(i) - end_.grh_bytes()),
			.length = end_.receive_payload + end_.grh_bytes(),
			.lkey = end_.memory->lkey};
		ibv_recv_wr request{.wr_id = i, .next = nullptr, .sg_list = &piece, .num_sge = 1};
		ibv_recv_wr* bad = nullptr;
		check_posted(ibv_post_recv(end_.qp.get(), &request, &bad), "ibv_post_recv");
	}
}

void Sender::run(const Run& run, const Watcher& watcher, Sent& sent) {
	sent = {};
	run_ = run.number;
	// No slot is in use between runs, and the target begins at its first slot too.
	slot_ = remote_slot_ = read_slot_ = 0;
	until_signal_ = end_.shape.signal_every;
	sample_head_ = sample_tail_ = 0;
	next_sample_ = sample_every - 1;
	if (run.total == 0) return;
	const std::uint64_t start = now_ns();
	run_loop(run, watcher, sent);
	sent.took_ns = now_ns() - start;
}

void Sender::run_loop(const Run& run, const Watcher& watcher, Sent& sent) {
	switch (end_.cell.op) {
		case Op::write: return loop<Op::write, false>(run, watcher, sent);
		case Op::read: return loop<Op::read, false>(run, watcher, sent);
		case Op::send:
			return end_.shape.fragments > 1 ? loop<Op::send, true>(run, watcher, sent)
											: loop<Op::send, false>(run, watcher, sent);
	}
}

template <Op op, bool segmented> void Sender::post(const Run& run, std::uint64_t first, std::uint32_t count) {
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
		// READ: overwrite the stamps, so that bytes that were not read are noticed.
		if constexpr (op == Op::read) write_stamps(slot, end_.cell.msg, UINT64_MAX);
		else write_stamps(slot, end_.cell.msg, make_stamp(run.number, sequence));

		if constexpr (segmented) {
			std::uint32_t offset = 0;
			for (std::uint32_t index = 0; index < end_.shape.fragments; ++index, ++request) {
				const std::uint32_t bytes = std::min(end_.shape.fragment_bytes, end_.cell.msg - offset);
				const FragmentHeader header{.stamp = make_stamp(run.number, sequence),
					.index = static_cast<std::uint16_t>(index),
					.count = static_cast<std::uint16_t>(end_.shape.fragments),
					.offset = offset};
				std::byte* at = end_.headers + (std::size_t{slot_} * end_.shape.fragments + index) * sizeof header;
				std::memcpy(at, &header, sizeof header);
				request->sg_list[0] = {
					.addr = reinterpret_cast<std::uint64_t>(at), .length = sizeof header, .lkey = end_.memory->lkey};
				request->sg_list[1] = {
					.addr = reinterpret_cast<std::uint64_t>(slot + offset), .length = bytes, .lkey = end_.memory->lkey};
				request->wr_id = sequence + 1;
				request->send_flags = index + 1 == end_.shape.fragments ? signaled : 0;
				offset += bytes;
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
			.sequence = std::max(first, next_sample_), .posted_at = now_ns()};
		next_sample_ = first + count + sample_every - 1;
	}
	// The list may be shorter than usual: end it here for this post, and link it again afterwards.
	ibv_send_wr* last = request - 1;
	ibv_send_wr* rest = last->next;
	last->next = nullptr;
	ibv_send_wr* bad = nullptr;
	check_posted(ibv_post_send(end_.qp.get(), requests_.data(), &bad), "ibv_post_send");
	last->next = rest;
}

template <Op op> void Sender::digest(const ibv_wc& completion, Sent& sent) {
	check_status(completion, name_of(op));
	if ((completion.opcode & IBV_WC_RECV) != 0) {
		// A UD credit: take it, and post its buffer again at once.
		const std::uint64_t count = credit_count_of(ntohl(completion.imm_data), run_, sent.consumed);
		if (count <= sent.posted) sent.consumed = count;
		ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(
						  end_.receive_at(static_cast<std::uint32_t>(completion.wr_id)) - end_.grh_bytes()),
			.length = end_.receive_payload + end_.grh_bytes(),
			.lkey = end_.memory->lkey};
		ibv_recv_wr request{.wr_id = completion.wr_id, .next = nullptr, .sg_list = &piece, .num_sge = 1};
		ibv_recv_wr* bad = nullptr;
		check_posted(ibv_post_recv(end_.qp.get(), &request, &bad), "ibv_post_recv");
		return;
	}
	if constexpr (op == Op::read) verify_reads(sent.completed, completion.wr_id, sent.read);
	sent.completed = completion.wr_id;
}

void Sender::verify_reads(std::uint64_t from, std::uint64_t to, Delivery& read) {
	for (; from < to; ++from) {
		const std::byte* slot = end_.slot_at(read_slot_);
		// The target's ring is as long as ours; each of its slots holds its own index as the
		// sequence number, stamped with run 0.
		const bool right = load_stamp(slot) == make_stamp(0, read_slot_) && stamps_agree(slot, end_.cell.msg);
		++(right ? read.delivered : read.corrupt);
		if (++read_slot_ == end_.slot_count) read_slot_ = 0;
	}
}

void Sender::take_samples(std::uint64_t known, Histogram& latency) {
	if (sample_head_ == sample_tail_ || samples_[sample_head_ & (samples_.size() - 1)].sequence >= known) return;
	const std::uint64_t now = now_ns();
	while (sample_head_ != sample_tail_) {
		const Sample& sample = samples_[sample_head_ & (samples_.size() - 1)];
		if (sample.sequence >= known) return;
		latency.record(now - sample.posted_at);
		++sample_head_;
	}
}

template <Op op, bool segmented> void Sender::loop(const Run& run, const Watcher& watcher, Sent& sent) {
	const std::uint64_t window = end_.cell.window;
	const bool latency_by_credit = end_.cell.window_mode == WindowMode::credit && credits_;
	auto* credit_word = reinterpret_cast<std::atomic<std::uint64_t>*>(end_.words);
	credit_word->store(0, std::memory_order_relaxed);
	ibv_wc completions[poll_batch];

	std::uint32_t idle_polls = 0, busy_polls = 0;
	std::uint64_t idle_since = 0, first_at = 0, first_count = 0;
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
		const int n = poll(end_.cq.get(), completions);
		for (int i = 0; i < n; ++i) digest<op>(completions[i], sent);
		if (credits_ && !credits_by_datagram_) {
			// The peer is untrusted: ignore a count above the number posted.
			const std::uint64_t credit = credit_word->load(std::memory_order_acquire);
			const std::uint64_t count = sequence_of(credit);
			if (run_of(credit) == run.number && count > sent.consumed && count <= sent.posted) sent.consumed = count;
		}

		if (sent.completed == completed_before && sent.consumed == consumed_before) {
			if (++idle_polls % watch_every != 0) continue;
			const std::uint64_t now = now_ns();
			if (idle_since == 0) idle_since = now;
			const bool all_but_unsignaled = sent.posted - sent.completed < end_.shape.signal_every;
			const bool silent = credits_by_datagram_ && all_but_unsignaled && now - idle_since > silence_ns;
			// Missing UD credits mean lost messages, unless the receiver is only slow or stopped,
			// so end the run only if the receiver has answered that it is idle.
			if (silent && receiver_idle) break;
			const Watch seen = watcher(silent);
			if (seen == Watch::abandon) throw Failure(bench::peer_gave_up);
			if (seen == Watch::finished && all_but_unsignaled) break;
			if (seen == Watch::receiver_idle) {
				receiver_idle = true;
				idle_since = now;  // a last credit may still arrive
			}
			if (now - idle_since > stall_ns) throw Failure("no progress for 10 s");
			continue;
		}
		idle_polls = 0;
		idle_since = 0;
		receiver_idle = false;
		take_samples(latency_by_credit ? sent.consumed : sent.completed, sent.latency_ns);
		if constexpr (op == Op::read) {
			if (first_at == 0) {
				first_at = now_ns();
				first_count = sent.completed;
			}
		}
		if (++busy_polls % watch_every == 0 && watcher(false) == Watch::abandon) throw Failure(bench::peer_gave_up);
	}
	if constexpr (op == Op::read) {
		sent.read.counted = sent.completed - first_count;
		sent.read.counted_ns = now_ns() - first_at;
	}
}

}  // namespace verbena::rcud
