// SPDX-License-Identifier: Apache-2.0
// The direct operations of one RC channel: RDMA READs and WRITEs, and the memory windows by which
// the peer gets access to memory of this end.
//
// Each operation is one work request on the channel's queue pair, in order with the frames, so a
// window is bound before a later frame announces it to the peer. Small READs and WRITEs of one turn
// are posted together. The record of a READ or WRITE keeps its buffer until the adapter is done
// with the buffer, even if the coroutine that asked for the operation is destroyed earlier.
//
// Threads: the loop's thread.
// Owns: the buffers of READs and WRITEs in flight, until take_buffers(); and the windows that it
//   has bound, with their buffers, until the windows are invalidated.
// Errors: a request that the device refuses ends the channel; fail() then ends the operations in
//   flight.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/channel/send_queue.h"

namespace verbena::channel {

class DirectOperations {
public:
	// `depth`: the most operations that may be in flight at once; 0: direct operations fail.
	DirectOperations(RcOwner& owner, SendQueue& sends, std::uint32_t depth)
		: shared_(owner.shared()), sends_(sends), depth_(depth) {}
	// Called after take_buffers(). A caller's Operation may outlive this object and is detached
	// from it.
	~DirectOperations() {
		for (std::uint32_t i = 0; i < count_; ++i)
			if (Channel::Operation* const operation = record(i).operation) operation->registration = nullptr;
	}
	DirectOperations(const DirectOperations&) = delete;
	DirectOperations& operator=(const DirectOperations&) = delete;

	std::uint32_t in_flight() const { return count_; }
	bool full() const { return count_ == depth_; }

	// Starts an operation of a caller, on a channel that has not ended. Afterwards its result is
	// `under_way`, `done` (Kind::share only) or `failed`, or `queued` if the operation was not
	// started because full() is true.
	void begin(Channel::Operation& operation);
	// Called by the channel itself, when not full(). Gives the peer access to `place` and fills in
	// `remote`, which may be sent to the peer in the next frame. Returns the index of the window,
	// for end(), or WindowTable::none if the device has no window left.
	std::uint32_t share(const Place& place, Right right, RemoteMemory& remote);
	// Called by the channel itself, when not full(). Reads a part of a message; handle_done()
	// counts the part once the READ is done.
	void read_part(const Place& into, const RemoteMemory& from);
	// Withdraws the peer's access by this window: now or, if full(), in a later post_ends().
	void end(std::uint32_t window);
	// Withdraws windows that end() could not, until full(). Called after handle_done().
	void post_ends();

	// All work requests up to this number are done. Returns the number of parts of messages that
	// they have read.
	std::uint32_t handle_done(std::uint32_t number);
	// The channel has ended: the operations in flight fail, and end() does nothing from now on.
	void fail(Trouble trouble);
	// Destroys the windows that are still bound. Called before the queue pair is destroyed.
	void withdraw_windows();
	// Hands over the buffers of READs and WRITEs in flight, which the adapter may access until the
	// queue pair is destroyed.
	std::vector<Buffer> take_buffers();

private:
	using Kind = Channel::Operation::Kind;
	struct Record {
		std::uint32_t number = 0;  // the number of the work request (SendQueue)
		Kind kind = Kind::read;
		std::uint32_t window = WindowTable::none;  // only with Kind::end
		bool of_channel = false;  // made by read_part()
		Buffer buffer;
		// The caller's operation. Null: the channel itself asked, or the operation was destroyed.
		Channel::Operation* operation = nullptr;
	};

	// Returns the record of an operation in flight; the oldest has index 0.
	Record& record(std::uint32_t index) { return records_[(first_ + index) % depth_]; }
	Record& add(std::uint32_t number, Kind kind, Buffer buffer, Channel::Operation* operation);
	Record& transfer(Kind kind, const Place& place, const RemoteMemory& remote, Channel::Operation* operation);
	void invalidate(std::uint32_t window, Channel::Operation* operation);
	// This end or the peer begins a transfer of `length` bytes, after whose end there is work.
	void expect_end(std::size_t length);
	void forget(std::uint32_t window);

	RcShared& shared_;
	SendQueue& sends_;
	std::uint32_t depth_;
	std::unique_ptr<Record[]> records_;  // a ring, allocated with the first operation
	std::uint32_t first_ = 0, count_ = 0;
	// The list of bound windows, linked through the table.
	std::uint32_t bound_ = WindowTable::none;
	// Bound windows that are to be invalidated once there is room in the send queue.
	std::vector<std::uint32_t> ending_;
	std::optional<Trouble> failed_;  // the argument of fail(), once that was called
};

}  // namespace verbena::channel
