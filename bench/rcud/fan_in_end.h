// SPDX-License-Identifier: Apache-2.0
// One end of many queue pairs (fan_in.h) as its measured loop sees it: the memory, and what moves
// messages and time (FanInEnd). The memory knows nothing of verbs, so that the loops can be tested
// without a device (scripted_fan_in.h).
//
// Threads: one thread for each end.
// Owns: the memory.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <concepts>

#include "bench/rcud/buffers.h"
#include "bench/rcud/fan_in.h"

namespace verbena::rcud {

// Queue pairs are numbered from 0: those of a sender among its own, those of a receiver as the
// cell's.
template <class T>
concept FanInEnd = requires(T& end, const T& constant, std::uint32_t queue_pair, ibv_send_wr& request,
	ibv_recv_wr* receives, ibv_wc* completions) {
	end.post_send(queue_pair, request);              // a Failure if it is refused
	end.post_receives(receives);                     // a list
	{ end.poll(completions) } -> std::same_as<int>;  // at most poll_batch completions
	{ end.now() } -> std::same_as<std::uint64_t>;    // nanoseconds; need not be steady
	{ constant.lkey() } -> std::same_as<std::uint32_t>;
	{ constant.qp_num(queue_pair) } -> std::same_as<std::uint32_t>;
	{ constant.remote_qpn(queue_pair) } -> std::same_as<std::uint32_t>;  // at the other end
	{ constant.remote() } -> std::same_as<const FanInAddress&>;
	{ constant.address_handle() } -> std::same_as<ibv_ah*>;  // UD
};

// Message slots, `room` for each queue pair, and the receives for UD credits.
struct FanInSenderMemory {
	// `words`: a line of memory that the receiver's credits are written to (RC).
	FanInSenderMemory(const Cell& cell, const Shape& shape, std::uint32_t number, std::uint64_t* words)
		: cell(cell),
		  shape(shape),
		  number(number),
		  own(cell.qps / cell.senders),
		  room(window_of_queue_pair(cell)),
		  credit_receives(is_ud() ? 64 + window_of_sender(cell) / shape.credit_every : 0),
		  credit_word(reinterpret_cast<std::atomic<std::uint64_t>*>(words)),
		  memory_(std::size_t{own} * room * shape.stride + std::size_t{credit_receives} * credit_bytes) {}

	bool is_ud() const { return cell.mode != Mode::rc; }
	std::byte* slot_at(std::uint32_t queue_pair, std::uint32_t i) const {
		return memory_.data() + (std::size_t{queue_pair} * room + i) * shape.stride;
	}
	std::byte* credit_at(std::uint64_t i) const {
		return memory_.data() + std::size_t{own} * room * shape.stride + i * credit_bytes;
	}

	static constexpr std::uint32_t credit_bytes = 128;  // a receive for a credit

	const Cell cell;
	const Shape shape;
	const std::uint32_t number;           // this sender's
	const std::uint32_t own;              // its queue pairs
	const std::uint32_t room;             // messages in flight on one queue pair, at most
	const std::uint32_t credit_receives;  // UD
	std::atomic<std::uint64_t>* const credit_word;
	bool sends_inline = false;

protected:
	Buffer memory_;
};

// Receives, and the words that credits are sent from. UD sends all credits through one queue pair,
// RC those of each sender through the sender's first one.
struct FanInReceiverMemory {
	FanInReceiverMemory(const Cell& cell, const Shape& shape)
		: cell(cell),
		  shape(shape),
		  credit_queues(is_ud() ? 1 : cell.senders),
		  stride_(shape.stride + (is_ud() ? 64 : 0)),
		  memory_(std::size_t{shape.receive_depth} * stride_ + std::size_t{credit_queues} * words_per_queue * 8) {}

	bool is_ud() const { return cell.mode != Mode::rc; }
	std::uint32_t grh_bytes() const { return is_ud() ? 40 : 0; }
	// The payload of receive i; its buffer begins grh_bytes() before.
	std::byte* receive_at(std::uint64_t i) const { return memory_.data() + i * stride_ + (is_ud() ? 64 : 0); }
	std::uint64_t& word_at(std::uint32_t queue, std::uint64_t credit) const {
		auto* words = reinterpret_cast<std::uint64_t*>(memory_.data() + std::size_t{shape.receive_depth} * stride_);
		return words[std::size_t{queue} * words_per_queue + credit % words_per_queue];
	}

	static constexpr std::uint32_t words_per_queue = 64;  // credits under way on one queue pair

	const Cell cell;
	const Shape shape;
	const std::uint32_t credit_queues;

private:
	const std::uint32_t stride_;  // from one receive buffer to the next

protected:
	Buffer memory_;
};

}  // namespace verbena::rcud
