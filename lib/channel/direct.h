// The direct operations of one RC channel: RDMA READs and WRITEs, and the memory windows by which
// the peer gets access to memory of this end.
//
// Each operation is one work request on the channel's queue pair, in order with the frames: so a
// window is bound before the peer can learn of it. Small READs and WRITEs of one turn are posted
// together. A record of each operation keeps its buffer until the adapter is done with it, even
// when the coroutine that asked is destroyed before.
//
// Threads: the loop's thread.
// Owns: the buffers of operations in flight, and the windows that it has bound, until they are
//   invalidated.
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
	// `depth`: the most operations that may be in flight at once; 0: none are possible.
	DirectOperations(RcOwner& owner, SendQueue& sends, std::uint32_t depth)
		: shared_(owner.shared()), sends_(sends), depth_(depth) {}
	// The queue pair is destroyed already, so nothing accesses the buffers. A caller's Operation
	// may outlive this.
	~DirectOperations() {
		for (std::uint32_t i = 0; i < count_; ++i)
			if (Channel::Operation* const operation = record(i).operation) operation->registration = nullptr;
	}
	DirectOperations(const DirectOperations&) = delete;
	DirectOperations& operator=(const DirectOperations&) = delete;

	std::uint32_t in_flight() const { return count_; }
	bool full() const { return count_ == depth_; }

	// Starts an operation of a caller, on a channel that has not ended. Afterwards it is under way,
	// done (`share`) or failed, or still `queued` because `depth` others are in flight.
	void begin(Channel::Operation& operation);
	// For the channel itself, when not full(). Gives the peer access to `place`; `remote` is for
	// the peer and may be sent in the next frame. Returns the window, for end(). `none`: the device
	// has no window left.
	std::uint32_t share(const Place& place, Right right, RemoteMemory& remote);
	// For the channel itself, when not full(): reads a part of a message. handle_done() counts it
	// when it is done.
	void read_part(const Place& into, const RemoteMemory& from);
	// Withdraws the access by this window, now or, if it is full(), with a later post_ends().
	void end(std::uint32_t window);
	// Withdraws what end() has left, as far as there is room. Called after handle_done().
	void post_ends();

	// All work requests up to this number are done. Returns how many parts of messages were read by
	// them.
	std::uint32_t handle_done(std::uint32_t number);
	// The channel has ended: everything in flight fails, and no window is withdrawn any more.
	void fail(Trouble trouble);
	// Destroys the windows that are still bound. Called before the queue pair is destroyed.
	void withdraw_windows();

private:
	using Kind = Channel::Operation::Kind;
	struct Record {
		std::uint32_t number = 0;  // the work request's
		Kind kind = Kind::read;
		std::uint32_t window = WindowTable::none;  // only with Kind::end
		bool of_channel = false;  // read_part(), and not a caller's Operation
		Buffer buffer;
		// Null: there is no caller, or it was destroyed.
		Channel::Operation* operation = nullptr;
	};

	// The oldest is 0.
	Record& record(std::uint32_t index) { return records_[(first_ + index) % depth_]; }
	Record& add(std::uint32_t number, Kind kind, Buffer buffer, Channel::Operation* operation);
	Record& transfer(Kind kind, const Place& place, const RemoteMemory& remote, Channel::Operation* operation);
	void invalidate(std::uint32_t window, Channel::Operation* operation);
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
	std::optional<Trouble> failed_;  // why, once fail() was called
};

}  // namespace verbena::channel
