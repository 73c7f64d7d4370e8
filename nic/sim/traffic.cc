// SPDX-License-Identifier: Apache-2.0
#include "nic/sim/traffic.h"

#include <algorithm>
#include <cstring>
#include <sstream>

namespace verbena::sim {

using queues::Completed;
using queues::Completion;
using queues::Segment;
using queues::SendOpcode;
using queues::Status;

namespace {

constexpr std::uint32_t target_bytes = 1 << 16;
constexpr std::uint32_t counter_count = 4;

bool takes_receive(SendOpcode opcode) {
	return opcode == SendOpcode::send || opcode == SendOpcode::send_imm || opcode == SendOpcode::rdma_write_imm;
}
bool has_immediate(SendOpcode opcode) { return opcode == SendOpcode::send_imm || opcode == SendOpcode::rdma_write_imm; }
bool is_write(SendOpcode opcode) { return opcode == SendOpcode::rdma_write || opcode == SendOpcode::rdma_write_imm; }
bool is_atomic(SendOpcode opcode) { return opcode == SendOpcode::compare_swap || opcode == SendOpcode::fetch_add; }

Completed completed_as(SendOpcode opcode) {
	switch (opcode) {
		case SendOpcode::rdma_write:
		case SendOpcode::rdma_write_imm: return Completed::rdma_write;
		case SendOpcode::rdma_read: return Completed::rdma_read;
		case SendOpcode::compare_swap: return Completed::compare_swap;
		case SendOpcode::fetch_add: return Completed::fetch_add;
		default: return Completed::send;
	}
}

}  // namespace

template <class... Parts> void Traffic::wrong(const Parts&... parts) {
	std::ostringstream text;
	((text << parts), ...);
	problems_.push_back(text.str());
}

Traffic::Traffic(Endpoint& from, Endpoint& to, const TrafficOptions& options, std::uint64_t seed)
	: from_(from),
	  to_(to),
	  options_(options),
	  seed_(seed),
	  random_(seed),
	  buffers_(from.qp.sq_mask + 1),
	  receive_buffers_(to.qp.receive_queue->capacity()),
	  local_(from.host.region(buffers_ * options.size_max)),
	  receives_(to.host.region(receive_buffers_ * options.size_max)),
	  target_(to.host.region(std::max(target_bytes, 2 * options.size_max))),
	  source_(to.host.region(std::max(target_bytes, 2 * options.size_max))),
	  counters_(to.host.region(counter_count * 8)),
	  target_shadow_(target_.bytes().begin(), target_.bytes().end()),
	  counters_shadow_(counter_count, 0) {
	for (std::byte& b : source_.bytes()) b = static_cast<std::byte>(random_());
	std::ranges::fill(counters_.bytes(), std::byte{0});
	for (std::uint32_t i = 0; i < receive_buffers_; ++i) post_receive();
}

// Byte `i` of message `number`. Cheap to compute, and different between messages and positions.
std::byte Traffic::content(std::uint64_t number, std::uint32_t i) const {
	return static_cast<std::byte>(((number + seed_ + 1) * 0x9e3779b97f4a7c15 >> 24) + i * 31 + (i >> 8) * 7);
}

std::uint32_t Traffic::draw_size() {
	const std::uint32_t mtu = from_.qp.path_mtu();
	std::uint64_t size;
	switch (random_.below(5)) {
		case 0: size = random_.below(65); break;
		case 1: size = random_.below(8) * mtu; break;  // whole packets
		case 2: size = random_.between(1, 4) * mtu + random_.below(3) - 1; break;
		case 3: size = random_.below(2 * mtu); break;
		default: size = random_.below(options_.size_max + 1); break;
	}
	return static_cast<std::uint32_t>(std::min<std::uint64_t>(size, options_.size_max));
}

// Divides [offset, offset + length) into one to three segments, some of which may be empty.
std::vector<Segment> Traffic::cut(const Region& region, std::uint32_t offset, std::uint32_t length) {
	std::vector<Segment> segments;
	for (std::uint64_t n = random_.below(3); n; --n) {
		const auto piece = static_cast<std::uint32_t>(random_.below(length + 1));
		segments.push_back(region.segment(offset, piece));
		offset += piece;
		length -= piece;
	}
	segments.push_back(region.segment(offset, length));
	return segments;
}

// Draws a random request, fills its source buffer, and applies its effect to the shadows.
Work Traffic::draw(std::uint64_t number, Operation& operation) {
	Work work{.wr_id = seed_ << 32 | number, .flags = 0};
	const std::uint32_t buffer = local_buffer(number);
	std::uint64_t kind = random_.below(options_.sends + options_.writes + options_.reads + options_.atomics);
	std::uint32_t length = draw_size();
	const auto local = local_.bytes().subspan(buffer, options_.size_max);
	std::ranges::fill(local, poison);

	if (kind < options_.sends + options_.writes) {
		const bool write = kind >= options_.sends;
		const bool immediate = random_.chance(0.4);
		work.opcode = write ? (immediate ? SendOpcode::rdma_write_imm : SendOpcode::rdma_write)
			: immediate     ? SendOpcode::send_imm
							: SendOpcode::send;
		if (immediate) work.immediate = static_cast<std::uint32_t>(random_());
		for (std::uint32_t i = 0; i < length; ++i) local[i] = content(number, i);
		if (length > 0 && length <= from_.qp.cold->inline_max && random_.chance(0.5)) {
			work.inline_data.assign(local.begin(), local.begin() + length);
		} else if (length > 0 || random_.chance(0.5)) {
			work.segments = cut(local_, buffer, length);
		}
		if (write) {
			const auto offset = static_cast<std::uint32_t>(random_.below(target_.size() - length + 1));
			work.remote_address = target_.at(offset);
			work.rkey = target_.key();
			for (std::uint32_t i = 0; i < length; ++i) target_shadow_[offset + i] = content(number, i);
		}
	} else if (kind < options_.sends + options_.writes + options_.reads) {
		work.opcode = SendOpcode::rdma_read;
		work.segments = cut(local_, buffer, length);
		operation.source_offset = static_cast<std::uint32_t>(random_.below(source_.size() - length + 1));
		work.remote_address = source_.at(operation.source_offset);
		work.rkey = source_.key();
	} else {
		length = 8;
		const auto counter = static_cast<std::uint32_t>(random_.below(counter_count));
		std::uint64_t& shadow = counters_shadow_[counter];
		operation.original = shadow;
		work.segments = {local_.segment(buffer, 8)};
		work.remote_address = counters_.at(counter * 8);
		work.rkey = counters_.key();
		if (random_.chance(0.5)) {
			work.opcode = SendOpcode::fetch_add;
			work.compare_or_add = random_();
			shadow += work.compare_or_add;
		} else {
			work.opcode = SendOpcode::compare_swap;
			work.compare_or_add = random_.chance(0.7) ? shadow : random_();
			work.swap = random_();
			if (work.compare_or_add == shadow) shadow = work.swap;
		}
	}
	operation.length = length;
	return work;
}

void Traffic::post() {
	std::vector<Work> list;
	while (posted_ < options_.operations && posted_ - completed_ < buffers_) {
		Operation operation{.number = posted_};
		operation.work = draw(posted_, operation);
		const bool signaled = posted_ + 1 == options_.operations || ++unsignaled_run_ >= buffers_ / 2 ||
			!random_.chance(options_.unsignaled);
		if (signaled) {
			operation.work.flags |= queues::send_signaled;
			unsignaled_run_ = 0;
		}
		if (random_.chance(0.1)) operation.work.flags |= queues::send_fence;
		if (takes_receive(operation.work.opcode)) expected_.push_back({posted_, operation.length, operation.work});
		list.push_back(operation.work);
		outstanding_.push_back(std::move(operation));
		++posted_;
		if (random_.chance(0.3)) break;
	}
	if (!list.empty() && !from_.post(list))
		wrong("the send queue had no room for request ", posted_ - list.size(),
			" although the requests before it had completed");
}

void Traffic::post_receive() {
	const std::uint64_t number = receives_posted_++;
	const auto buffer = static_cast<std::uint32_t>(number % receive_buffers_) * options_.size_max;
	std::ranges::fill(receives_.bytes().subspan(buffer, options_.size_max), poison);
	if (!to_.post_receive(number, cut(receives_, buffer, options_.size_max)))
		wrong("the receive queue had no room for receive ", number);
}

void Traffic::step() {
	if (broken()) return;
	from_.poll();
	to_.poll();
	while (sent_seen_ < from_.sent.size() && !broken()) check_sent(from_.sent[sent_seen_++]);
	while (received_seen_ < to_.received.size() && !broken()) check_received(to_.received[received_seen_++]);
	if (!broken()) post();
}

void Traffic::check_sent(const Completion& completion) {
	// The completion belongs to the oldest signaled request; unsignaled ones before it have
	// completed with it.
	while (!outstanding_.empty()) {
		const Operation operation = std::move(outstanding_.front());
		outstanding_.pop_front();
		++completed_;
		check_operation(operation);
		if (!(operation.work.flags & queues::send_signaled)) continue;
		const std::uint64_t n = operation.number;
		if (completion.wr_id != operation.work.wr_id)
			wrong("request ", n, " should have completed, but request ", completion.wr_id & 0xffffffff, " did");
		if (completion.status != Status::success)
			wrong("request ", n, " completed with status ", int(completion.status));
		if (completion.opcode != completed_as(operation.work.opcode))
			wrong("request ", n, " completed as ", int(completion.opcode));
		if (completion.qpn != from_.qp.qpn) wrong("request ", n, " completed for QP ", completion.qpn);
		return;
	}
	wrong("a completion without a signaled request: request ", completion.wr_id & 0xffffffff, ", status ",
		int(completion.status));
}

void Traffic::check_operation(const Operation& operation) {
	const auto local = local_.bytes().subspan(local_buffer(operation.number), options_.size_max);
	const std::uint32_t length = operation.length;
	std::uint32_t i = 0;
	if (operation.work.opcode == SendOpcode::rdma_read) {
		const auto source = source_.bytes().subspan(operation.source_offset, length);
		while (i < length && local[i] == source[i]) ++i;
	} else if (is_atomic(operation.work.opcode)) {
		std::uint64_t original;
		std::memcpy(&original, local.data(), 8);
		if (original != operation.original)
			wrong("atomic ", operation.number, " returned ", original, " instead of ", operation.original);
		i = length;
	} else {
		while (i < length && local[i] == content(operation.number, i)) ++i;
	}
	if (i != length)
		wrong("request ", operation.number, ", opcode ", int(operation.work.opcode), ": byte ", i, " of ", length,
			" of its buffer is wrong");
	if (std::ranges::any_of(local.subspan(length), [](std::byte b) { return b != poison; }))
		wrong("request ", operation.number, " wrote behind the ", length, " bytes of its buffer");
}

void Traffic::check_received(const Completion& completion) {
	if (expected_.empty()) return wrong("a message was received twice, or was never sent");
	const Message message = std::move(expected_.front());
	expected_.pop_front();
	const std::uint64_t n = message.number;
	if (completion.status != Status::success)
		return wrong("message ", n, " was received with status ", int(completion.status));
	if (completion.wr_id != receives_used_)
		wrong("message ", n, " went to receive ", completion.wr_id, " instead of ", receives_used_);
	++receives_used_;
	const bool write = is_write(message.work.opcode);
	if (completion.opcode != (write ? Completed::receive_rdma_with_imm : Completed::receive))
		wrong("message ", n, " was received as ", int(completion.opcode));
	if (completion.length != message.length)
		wrong("message ", n, " has ", completion.length, " bytes instead of ", message.length);
	const bool immediate = completion.flags & queues::completion_with_imm;
	if (immediate != has_immediate(message.work.opcode) ||
		(immediate && completion.immediate != message.work.immediate))
		wrong("message ", n, " has the wrong immediate data");
	if (completion.source_qp != from_.qp.qpn || completion.qpn != to_.qp.qpn)
		wrong("message ", n, " was received for other queue pairs");

	const auto buffer =
		receives_.bytes().subspan(completion.wr_id % receive_buffers_ * options_.size_max, options_.size_max);
	const std::uint32_t filled = write ? 0 : message.length;
	for (std::uint32_t i = 0; i < filled; ++i)
		if (buffer[i] != content(n, i)) {
			wrong("message ", n, ": byte ", i, " of ", filled, " is wrong");
			break;
		}
	if (std::ranges::any_of(buffer.subspan(filled), [](std::byte b) { return b != poison; }))
		wrong("message ", n, " wrote behind its ", filled, " bytes");

	if (!random_.chance(options_.late_receive)) return post_receive();
	Fabric& fabric = to_.host.fabric;
	fabric.at(fabric.now() + random_.below(300'000), [this] { post_receive(); });
}

void Traffic::check_end() {
	const auto target = target_.bytes();
	const auto [at, shadow] = std::ranges::mismatch(target, target_shadow_);
	if (at != target.end())
		wrong("byte ", at - target.begin(), " of the written region differs from the result of the WRITEs");
	for (std::uint32_t i = 0; i < counter_count; ++i) {
		std::uint64_t value;
		std::memcpy(&value, counters_.bytes().data() + i * 8, 8);
		if (value != counters_shadow_[i]) wrong("counter ", i, " is ", value, " and should be ", counters_shadow_[i]);
	}
	if (!local_.guards_are_intact() || !from_.host.guards_are_intact() || !to_.host.guards_are_intact())
		wrong("bytes outside a region were written");
	from_.poll();
	to_.poll();
	if (sent_seen_ != from_.sent.size()) wrong(from_.sent.size() - sent_seen_, " completions more than expected");
	if (received_seen_ != to_.received.size())
		wrong(to_.received.size() - received_seen_, " messages more than expected");
	if (!from_.quiet()) wrong("the send queue is not empty");
}

std::string Traffic::progress() const {
	std::ostringstream text;
	text << posted_ << " posted, " << completed_ << " completed, " << expected_.size() << " messages not received, of "
		 << options_.operations;
	return text.str();
}

}  // namespace verbena::sim
