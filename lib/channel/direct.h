// The direct operations of one RC channel: RDMA READ and WRITE, and the windows by which memory is lent to the peer.
//
// Each is one work request on the channel's queue pair, in its order with the frames: so a window is bound before the
// peer can hear of it. Small READs and WRITEs of one turn are posted together: at its end, or before whatever follows
// them on the queue pair. A record of each keeps its buffer until the adapter is done with it, whatever becomes of the
// coroutine that asked.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/channel/channel.h"
#include "lib/channel/windows.h"

namespace verbena::channel {

class RcChannel;

class DirectOperations final : public async::TurnEnd {
public:
	// `depth`: how many may be in the send queue at once; 0: none at all.
	DirectOperations(RcChannel& channel, std::uint32_t depth) : channel_(channel), depth_(depth) {}
	// The queue pair is gone: nothing touches the buffers any more. Who awaits an operation may outlive it.
	~DirectOperations() {
		for (std::uint32_t i = 0; i < count_; ++i)
			if (Channel::Operation* const operation = record(i).operation) operation->mention = nullptr;
	}
	DirectOperations(const DirectOperations&) = delete;
	DirectOperations& operator=(const DirectOperations&) = delete;

	std::uint32_t in_flight() const { return count_ - static_cast<std::uint32_t>(waiting_.size()); }
	bool full() const { return count_ == depth_; }

	void begin(Channel::Operation& operation);
	// For the channel itself, when not full. none: the device has no window left.
	std::uint32_t lend(const Place& place, Right right, RemoteMemory& remote);
	// The channel learns of its end by handle_part_read().
	void read_part(const Place& into, const RemoteMemory& from);
	void end(std::uint32_t window);
	// What waits for the end of the turn leaves now.
	void post_waiting();
	void turn_ends() override { post_waiting(); }

	// All work requests up to this number are done.
	void handle_done(std::uint32_t number);
	void fail(Trouble trouble);
	// Before the queue pair is destroyed.
	void withdraw_windows();

private:
	using Kind = Channel::Operation::Kind;
	struct Record {
		std::uint32_t number = 0;
		Kind kind = Kind::read;
		std::uint32_t window = WindowTable::none;
		bool of_channel = false;  // a part of a message, and not an Operation
		Buffer buffer;
		Channel::Operation* operation = nullptr;
	};

	// A READ or WRITE that is posted with others.
	struct Waiting {
		ibv_send_wr request;
		ibv_sge piece;
	};

	// The oldest is 0.
	Record& record(std::uint32_t index) { return records_[(first_ + index) % depth_]; }
	Record& add(Kind kind, Buffer buffer, Channel::Operation* operation);
	Record& post(ibv_send_wr& request, Kind kind, Buffer buffer, Channel::Operation* operation, bool signal = true);
	Record& transfer(Kind kind, const Place& place, const RemoteMemory& remote, Channel::Operation* operation);
	void invalidate(std::uint32_t window, Channel::Operation* operation);
	void forget(std::uint32_t window);
	WindowTable& windows() const;

	RcChannel& channel_;
	std::uint32_t depth_;
	std::unique_ptr<Record[]> records_;  // a ring, made with the first operation
	std::uint32_t first_ = 0, count_ = 0;
	std::vector<Waiting> waiting_;  // of the newest records
	std::uint32_t lent_ = WindowTable::none;  // a list
	// Of those: whose leases are over, but for whom there was no room in the send queue yet.
	std::vector<std::uint32_t> ending_;
};

}  // namespace verbena::channel
