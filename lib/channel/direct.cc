// SPDX-License-Identifier: Apache-2.0
#include "lib/channel/direct.h"

#include <algorithm>

namespace verbena::channel {

using DirectProgress = Channel::Operation::Progress;

namespace {

// The largest READ or WRITE that is deferred, in bytes. For larger ones the cost of posting does
// not matter, and an early start does.
constexpr std::size_t small_max = 4096;

// The time in which a transfer is expected to end: 1 ns for each byte, and at most this. Until then
// the loop polls.
constexpr std::size_t transfer_time_max = 1'000'000;

}  // namespace

void DirectOperations::begin(Channel::Operation& operation) {
	operation.result = DirectProgress::failed;
	operation.trouble = Trouble::unsupported;
	if (depth_ == 0) return;
	operation.result = DirectProgress::queued;
	if (full()) return;
	switch (operation.kind) {
		case Kind::read:
		case Kind::write: transfer(operation.kind, operation.place, operation.remote, &operation); break;
		case Kind::share: {
			RemoteMemory remote;
			const std::uint32_t window = share(operation.place, operation.right, remote);
			operation.result = window == WindowTable::none ? DirectProgress::failed : DirectProgress::done;
			operation.trouble = Trouble::no_memory;
			if (window == WindowTable::none) return;
			operation.lease = Lease(shared_.windows, window, remote);
			shared_.windows[window].leased = true;
			return;
		}
		case Kind::end: {
			const std::uint32_t window = operation.lease.release();
			shared_.windows[window].leased = false;
			invalidate(window, &operation);
			break;
		}
	}
	// The device may have refused the request, which has ended the channel.
	operation.result = failed_ ? DirectProgress::failed : DirectProgress::under_way;
	operation.trouble = failed_.value_or(Trouble::closed);
}

DirectOperations::Record& DirectOperations::add(
	std::uint32_t number, Kind kind, Buffer buffer, Channel::Operation* operation) {
	if (!records_) records_ = std::make_unique<Record[]>(depth_);
	check(!full(), "a direct operation is posted only when there is room");
	Record& record = this->record(count_++);
	record = {.number = number, .kind = kind, .buffer = std::move(buffer), .operation = operation};
	if (operation != nullptr) operation->registration = &record.operation;
	return record;
}

DirectOperations::Record& DirectOperations::transfer(
	Kind kind, const Place& place, const RemoteMemory& remote, Channel::Operation* operation) {
	ibv_sge piece{.addr = reinterpret_cast<std::uint64_t>(place.bytes().data()),
		.length = static_cast<std::uint32_t>(place.length),
		.lkey = place.buffer.region()->lkey};
	ibv_send_wr request{.sg_list = &piece,
		.num_sge = place.length > 0 ? 1 : 0,
		.opcode = kind == Kind::read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE};
	request.wr.rdma = {.remote_addr = remote.address, .rkey = remote.rkey};
	++(kind == Kind::read ? shared_.counters.reads : shared_.counters.writes);
	expect_end(place.length);
	const bool small = place.length > 0 && place.length <= small_max;
	const std::uint32_t number = small ? sends_.defer(request, piece) : sends_.post(request, true);
	return add(number, kind, place.buffer, operation);
}

void DirectOperations::read_part(const Place& into, const RemoteMemory& from) {
	transfer(Kind::read, into, from, nullptr).of_channel = true;
}

std::uint32_t DirectOperations::share(const Place& place, Right right, RemoteMemory& remote) {
	const std::uint32_t index = shared_.windows.take();
	if (index == WindowTable::none) return index;
	MemoryWindow& window = shared_.windows[index];
	window.buffer = place.buffer;
	window.owner = this;
	window.previous = WindowTable::none;
	window.next = std::exchange(bound_, index);
	if (window.next != WindowTable::none) shared_.windows[window.next].previous = index;

	ibv_mw* const handle = window.handle.get();
	const std::span<std::byte> bytes = place.bytes();
	remote = {.address = reinterpret_cast<std::uint64_t>(bytes.data()),
		.length = static_cast<std::uint32_t>(bytes.size()),
		.rkey = ibv_inc_rkey(handle->rkey)};
	ibv_send_wr request{.opcode = IBV_WR_BIND_MW};
	request.bind_mw = {.mw = handle,
		.rkey = remote.rkey,
		.bind_info = {.mr = place.buffer.region(),
			.addr = remote.address,
			.length = remote.length,
			.mw_access_flags =
				right == Right::read ? unsigned{IBV_ACCESS_REMOTE_READ} : unsigned{IBV_ACCESS_REMOTE_WRITE}}};
	// The completion of a later request covers this one too. Once half of the places are taken it
	// is signalled itself, so that there is a completion when every place is a bind.
	add(sends_.post(request, count_ >= depth_ / 2), Kind::share, {}, nullptr);
	++shared_.counters.windows_bound;
	handle->rkey = remote.rkey;
	expect_end(place.length);
	return index;
}

void DirectOperations::expect_end(std::size_t length) {
	const auto duration = static_cast<Nanoseconds>(std::min(length, transfer_time_max));
	shared_.loop.expect_work(shared_.loop.now() + duration);
}

void DirectOperations::end(std::uint32_t window) {
	if (failed_) return;  // withdraw_windows() destroys it with the others
	if (full()) ending_.push_back(window);
	else invalidate(window, nullptr);
}

void DirectOperations::invalidate(std::uint32_t window, Channel::Operation* operation) {
	ibv_send_wr request{.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = shared_.windows[window].handle->rkey};
	add(sends_.post(request, true), Kind::end, {}, operation).window = window;
}

std::uint32_t DirectOperations::handle_done(std::uint32_t number) {
	std::uint32_t parts = 0;
	while (count_ > 0 && static_cast<std::int32_t>(number - this->record(0).number) >= 0) {
		Record record = std::exchange(this->record(0), {});
		first_ = (first_ + 1) % depth_;
		--count_;
		if (record.kind == Kind::end) forget(record.window);
		parts += record.of_channel;
		if (record.operation == nullptr) continue;
		record.operation->registration = nullptr;
		record.operation->result = DirectProgress::done;
		shared_.loop.resume_soon(*record.operation);
	}
	return parts;
}

void DirectOperations::post_ends() {
	while (!ending_.empty() && !full() && !failed_) {
		invalidate(ending_.back(), nullptr);
		ending_.pop_back();
	}
}

void DirectOperations::forget(std::uint32_t index) {
	MemoryWindow& window = shared_.windows[index];
	window.owner = nullptr;
	window.buffer = {};
	if (window.next != WindowTable::none) shared_.windows[window.next].previous = window.previous;
	(window.previous == WindowTable::none ? bound_ : shared_.windows[window.previous].next) = window.next;
	if (!window.leased) shared_.windows.give_back(index);
}

void DirectOperations::fail(Trouble trouble) {
	failed_ = trouble;
	for (std::uint32_t i = 0; i < count_; ++i) {
		Channel::Operation* const operation = std::exchange(record(i).operation, nullptr);
		if (operation == nullptr) continue;
		operation->registration = nullptr;
		operation->result = DirectProgress::failed;
		operation->trouble = trouble;
		// An operation that is not linked is just being started: begin() returns its failure.
		if (operation->linked()) shared_.loop.resume_soon(*operation);
	}
}

void DirectOperations::withdraw_windows() {
	while (bound_ != WindowTable::none) {
		shared_.windows[bound_].handle.reset();
		forget(bound_);
	}
}

std::vector<Buffer> DirectOperations::take_buffers() {
	std::vector<Buffer> buffers;
	for (std::uint32_t i = 0; i < count_; ++i)
		if (record(i).buffer) buffers.push_back(std::move(record(i).buffer));
	return buffers;
}

}  // namespace verbena::channel
