#include "lib/channel/direct.h"

#include "lib/channel/rc_channel.h"

namespace verbena::channel {

using Progress = Channel::Operation::Progress;

namespace {

// Of those that are posted together: with more bytes to move posting does not matter, and an early start does.
constexpr std::size_t small_max = 4096;

}  // namespace

WindowTable& DirectOperations::windows() const { return channel_.shared().windows; }

void DirectOperations::begin(Channel::Operation& operation) {
	operation.result = Progress::failed;
	operation.trouble = channel_.ended_ ? channel_.trouble_ : Trouble::unsupported;
	if (channel_.ended_ || depth_ == 0) return;
	operation.result = Progress::queued;
	if (full()) return;
	switch (operation.kind) {
		case Kind::read:
		case Kind::write: transfer(operation.kind, operation.place, operation.remote, &operation); break;
		case Kind::lend: {
			RemoteMemory remote;
			const std::uint32_t window = lend(operation.place, operation.right, remote);
			operation.result = window == WindowTable::none ? Progress::failed : Progress::done;
			operation.trouble = Trouble::no_memory;
			if (window == WindowTable::none) return;
			operation.lease = Lease(windows(), window, remote);
			windows()[window].leased = true;
			return;
		}
		case Kind::end: {
			const std::uint32_t window = operation.lease.release();
			windows()[window].leased = false;
			invalidate(window, &operation);
			break;
		}
	}
	if (operation.result == Progress::queued)
		operation.result = channel_.lost_ ? Progress::failed : Progress::under_way;
	operation.trouble = channel_.trouble_;  // if posting it failed
}

DirectOperations::Record& DirectOperations::add(Kind kind, Buffer buffer, Channel::Operation* operation) {
	if (!records_) records_ = std::make_unique<Record[]>(depth_);
	check(!full(), "whoever posts a direct operation asked whether there is room");
	Record& record = this->record(count_++);
	record = {.kind = kind, .buffer = std::move(buffer), .operation = operation};
	if (operation != nullptr) operation->mention = &record.operation;
	return record;
}

DirectOperations::Record& DirectOperations::post(
	ibv_send_wr& request, Kind kind, Buffer buffer, Channel::Operation* operation, bool signal) {
	post_waiting();
	const std::uint32_t number = channel_.post(request, signal);
	Record& record = add(kind, std::move(buffer), operation);
	record.number = number;
	return record;
}

void DirectOperations::post_waiting() {
	if (waiting_.empty()) return;
	const auto count = static_cast<std::uint32_t>(waiting_.size());
	std::uint32_t number = channel_.sends_.posted();
	for (std::uint32_t i = 0; i < count; ++i) {
		record(count_ - count + i).number = ++number;
		Waiting& each = waiting_[i];
		each.request.sg_list = &each.piece;
		each.request.next = i + 1 < count ? &waiting_[i + 1].request : nullptr;
	}
	if (!channel_.lost_) channel_.post(waiting_.front().request, true);
	waiting_.clear();
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
	++(kind == Kind::read ? channel_.shared().counters.reads : channel_.shared().counters.writes);
	if (place.length > 0 && place.length <= small_max) {
		waiting_.push_back({request, piece});
		channel_.loop_.at_turn_end(*this);
		return add(kind, place.buffer, operation);
	}
	return post(request, kind, place.buffer, operation);
}

void DirectOperations::read_part(const Place& into, const RemoteMemory& from) {
	transfer(Kind::read, into, from, nullptr).of_channel = true;
}

std::uint32_t DirectOperations::lend(const Place& place, Right right, RemoteMemory& remote) {
	const std::uint32_t index = windows().take();
	if (index == WindowTable::none) return index;
	MemoryWindow& window = windows()[index];
	window.buffer = place.buffer;
	window.owner = this;
	window.previous = WindowTable::none;
	window.next = std::exchange(lent_, index);
	if (window.next != WindowTable::none) windows()[window.next].previous = index;

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
	// Whatever is signalled later tells of it too; but not everything may wait for that.
	post(request, Kind::lend, {}, nullptr, count_ >= depth_ / 2);
	++channel_.shared().counters.windows_bound;
	handle->rkey = remote.rkey;
	return index;
}

void DirectOperations::end(std::uint32_t window) {
	if (channel_.lost_) return;  // the channel's end withdraws everything
	if (full()) ending_.push_back(window);
	else invalidate(window, nullptr);
}

void DirectOperations::invalidate(std::uint32_t window, Channel::Operation* operation) {
	ibv_send_wr request{.opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = windows()[window].handle->rkey};
	post(request, Kind::end, {}, operation).window = window;
}

void DirectOperations::handle_done(std::uint32_t number) {
	while (in_flight() > 0 && static_cast<std::int32_t>(number - record(0).number) >= 0) {
		Record record = std::exchange(this->record(0), {});
		first_ = (first_ + 1) % depth_;
		--count_;
		if (record.kind == Kind::end) forget(record.window);
		if (record.of_channel) channel_.handle_part_read();
		if (record.operation == nullptr) continue;
		record.operation->mention = nullptr;
		record.operation->result = Progress::done;
		channel_.loop_.resume_soon(*record.operation);
	}
	while (!ending_.empty() && !full() && !channel_.lost_) {
		invalidate(ending_.back(), nullptr);
		ending_.pop_back();
	}
}

void DirectOperations::forget(std::uint32_t index) {
	MemoryWindow& window = windows()[index];
	window.owner = nullptr;
	window.buffer = {};
	if (window.next != WindowTable::none) windows()[window.next].previous = window.previous;
	(window.previous == WindowTable::none ? lent_ : windows()[window.previous].next) = window.next;
	if (!window.leased) windows().give_back(index);
}

void DirectOperations::fail(Trouble trouble) {
	for (std::uint32_t i = 0; i < count_; ++i) {
		Channel::Operation* const operation = std::exchange(record(i).operation, nullptr);
		if (operation == nullptr) continue;
		operation->mention = nullptr;
		operation->result = Progress::failed;
		operation->trouble = trouble;
		if (operation->linked()) channel_.loop_.resume_soon(*operation);  // unless it begins just now
	}
}

void DirectOperations::withdraw_windows() {
	while (lent_ != WindowTable::none) {
		windows()[lent_].handle.reset();
		forget(lent_);
	}
}

}  // namespace verbena::channel
