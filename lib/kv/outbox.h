// SPDX-License-Identifier: Apache-2.0
// Outbox: the send queue of one channel. Records that are added during a turn of the loop share
// messages, which leave at the end of the turn; a long value has a message of its own and is not
// copied. A message of several records does not wait for the end, so that the peer works on it
// while this side adds others; otherwise one of both would always wait for the other.
//
// Threads: one, that of the channel's loop.
// Lifetime: dies before the channel.
// Errors: put() always succeeds; a caller that may add much applies backpressure by crowded() and
//   until_room(). Once the channel has ended, records are dropped.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "lib/channel/channel.h"
#include "lib/kv/running.h"
#include "lib/kv/store.h"

namespace verbena::kv {

// The bytes of records that the outboxes of one server keep, for its budget. When there are many,
// an outbox is crowded with less.
struct UnsentRecords {
	static constexpr std::size_t many = 8 << 20;
	std::size_t bytes = 0;
};

class Outbox final : public async::TurnEnd {
public:
	// `message_max`: bytes of a message that has several records. `all` outlives the outbox.
	Outbox(channel::Channel& channel, std::size_t message_max, UnsentRecords* all = nullptr);
	~Outbox() { count(-static_cast<std::ptrdiff_t>(kept_)); }
	Outbox(const Outbox&) = delete;
	Outbox& operator=(const Outbox&) = delete;

	// Lowers `message_max`.
	void limit(std::size_t message_max) { message_max_ = std::min(message_max_, message_max); }

	// Adds a record of this many bytes and returns where the caller writes it. The pointer dangles
	// after the next put().
	std::byte* put(std::size_t bytes);
	// Adds a record that ends with `body`, in a message of its own. The body is not copied, so it
	// must stay valid until it has been sent: `keep` holds it, or the caller does and calls
	// detach() before it frees the body.
	std::byte* put(std::size_t head_bytes, Bytes body, Value keep = {});
	// True if a record of this many bytes can share a message with others.
	bool takes(std::size_t bytes) const { return bytes <= message_max_; }
	// Copies `body`, if it is still queued, so that its owner may free it.
	void detach(Bytes body);

	// True if all records have been sent.
	bool empty() const { return waiting_.empty() && !sending_; }
	// Bytes that wait, and whether that is because the channel has no room.
	std::size_t waiting() const { return queued_; }
	bool blocked() const { return sending_.has_value(); }
	// True while more than 1 MiB waits to be sent, or more than 8 KiB if the outboxes of the server
	// keep more than 8 MiB.
	bool crowded() const { return queued_ > (others_wait() ? queue_max_among_many : queue_max); }
	// co_await until_room() resumes the caller when the outbox is no longer crowded, or the channel
	// has ended.
	async::Park until_room() { return async::Park(room_); }

	// TurnEnd
	void turn_ends() override;

private:
	friend class Running;
	static constexpr std::size_t queue_max = 1 << 20, queue_max_among_many = 8 << 10;
	// A message with this many records leaves when there is another one (decision 56).
	static constexpr std::uint32_t records_early = 8;

	// One message.
	struct Outgoing {
		Bytes records() const { return Bytes(memory).first(used); }

		std::vector<std::byte> memory;  // for the records; what is not used keeps any bytes
		std::size_t used = 0;
		std::uint32_t count = 0;  // records
		Bytes body;  // behind the records
		Value keep;  // holds `body`, if the store has it
		std::vector<std::byte> own_body;  // holds `body` after detach()
		bool closed = false;  // takes no more records
	};
	class Blocked;

	bool others_wait() const { return all_ != nullptr && all_->bytes > UnsentRecords::many; }
	void count(std::ptrdiff_t bytes);
	void begin_message();
	std::byte* append(std::size_t bytes);
	void push();
	void finish_sending();
	Running write();

	channel::Channel& channel_;
	std::size_t message_max_;
	std::vector<Outgoing> waiting_;
	std::size_t first_ = 0;  // index of the first unsent message in `waiting_`
	std::size_t queued_ = 0;  // bytes of the unsent messages
	UnsentRecords* all_;
	std::size_t kept_ = 0;  // this outbox's part of it: records until they are sent, and `spare_`
	Outgoing current_;  // the message that is being sent
	// Sends `current_`; empty once the channel has taken all of it.
	std::optional<channel::Channel::Sending> sending_;
	std::vector<std::byte> spare_;  // the memory of a sent message, for the next one
	bool ended_ = false;
	std::coroutine_handle<> writer_;  // write(), suspended
	async::List<async::Waiter> room_;  // callers of until_room()
	Coroutines coroutines_;
};

}  // namespace verbena::kv
