// Outbox: what is about to leave on a channel. Records that are put in during a turn share messages, which are sent at
// the end of the turn; a long value gets a message of its own and is not copied.
//
// Nothing is refused: whoever puts in more than the channel takes looks at crowded() and waits by until_room(). After
// the channel's end everything is dropped. Lives on the channel's loop and dies before the channel.
//
// With a journal nothing leaves before what it has collected is committed: all changes of a turn, of every connection,
// by one commit.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "lib/channel/channel.h"
#include "lib/kv/running.h"
#include "lib/kv/store.h"

namespace verbena::kv {

class Outbox final : public async::TurnEnd {
public:
	// `message_max`: of a message of several records.
	Outbox(channel::Channel& channel, std::size_t message_max, Journal* journal = nullptr);

	void limit(std::size_t message_max) { message_max_ = std::min(message_max_, message_max); }

	// Where to put a record of so many bytes.
	std::byte* put(std::size_t bytes);
	// A record whose last part is `body`, which stays where it is until it is sent: `keep` holds it, or it is the
	// caller's, who calls detach() if it goes before.
	std::byte* put(std::size_t head_bytes, Bytes body, Value keep = {});
	bool takes(std::size_t bytes) const { return bytes <= message_max_; }
	void detach(Bytes body);

	bool crowded() const { return queued_ > queue_max; }
	// co_await until_room(); also ends with the channel.
	async::Park until_room() { return async::Park(room_); }

	// TurnEnd
	void turn_ends() override;

private:
	friend class Running;
	static constexpr std::size_t queue_max = 1 << 20;

	struct Outgoing {
		std::vector<std::byte> records;
		Bytes body;
		Value keep;
		std::vector<std::byte> own_body;
		bool closed = false;  // takes no more records
	};
	class Blocked;

	void begin_message();
	void push();
	void finish_sending();
	Running write();

	channel::Channel& channel_;
	std::size_t message_max_;
	Journal* journal_;
	std::vector<Outgoing> waiting_;
	std::size_t first_ = 0;  // of `waiting_`; those before it have left
	std::size_t queued_ = 0;  // bytes of those that have not
	Outgoing current_;
	std::optional<channel::Channel::Sending> sending_;  // `current_`, while the channel has not taken all of it
	std::vector<std::byte> spare_;
	bool ended_ = false;
	std::coroutine_handle<> writer_;
	async::List<async::Waiter> room_;
	Coroutines coroutines_;
};

}  // namespace verbena::kv
