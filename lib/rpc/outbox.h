// Outbox: the frames that one end of a connection sends. Frames of one turn of the loop leave together: those that fit
// into a batch are one channel message, and so one write to a socket or one work request. A frame with a large
// attachment is a message of its own, whose attachment is sent from where it lies.
//
//     FrameDraft draft = outbox.begin(header);     // one at a time
//     pack_value(draft.buffer(), value);           // the body
//     outbox.finish(draft, attachment);
//
// Of its loop's thread. It dies before its channel, and what it has not sent is gone then.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lib/async/job.h"
#include "lib/channel/channel.h"
#include "lib/rpc/frame.h"
#include "lib/rpc/serialize.h"
#include "lib/rpc/shared_message.h"

namespace verbena::rpc {

// What keeps an attachment's bytes until they are sent: nobody (the sender waits), a string, a received message,
// registered memory (which the peer fetches).
using AttachmentOwner = std::variant<std::monostate, std::string, MessageShare, channel::Place>;

// `bytes` of a string are found by whom it is given to.
struct Attachment {
	std::span<const std::byte> bytes;
	AttachmentOwner owner;
};
inline Attachment registered_attachment(channel::Place place) {
	const std::span<const std::byte> bytes = place.bytes();
	return {.bytes = bytes, .owner = std::move(place)};
}
inline Attachment view_attachment(std::string_view bytes) {
	return {.bytes = std::as_bytes(std::span(bytes)), .owner = {}};
}

struct OutboxCounters {
	std::uint64_t frames = 0;
	std::uint64_t messages = 0;  // frames / messages: how many share one
	std::uint64_t large = 0;  // messages of their own
};

// Bytes of one message that frames share: an RC unit holds it, or a write to a socket. 0: each frame is a message.
std::size_t batch_max_of(const channel::Channel& channel, bool coalesce);

class FrameDraft {
public:
	Buffer& buffer() { return *buffer_; }

private:
	friend class Outbox;
	FrameDraft(Buffer& buffer, const FrameHeader& header) : buffer_(&buffer), start_(buffer.size()), header_(header) {
		buffer.resize(start_ + FrameHeader::bytes);
	}
	Buffer* buffer_;
	std::size_t start_;
	FrameHeader header_;
};

// Told once when the outbox is not crowded any more; its tell_next() is due when that one has sent what it had.
class Uncrowded : public async::Linked {
public:
	virtual void uncrowded() = 0;

protected:
	~Uncrowded() = default;
};

class Outbox final : public async::TurnEnd {
public:
	// `batch_max`: bytes of a message that several frames share. `unsent_max`: with so many it is crowded.
	Outbox(channel::Channel& channel, std::size_t batch_max, std::size_t unsent_max);
	~Outbox();

	FrameDraft begin(const FrameHeader& header) { return {open_, header}; }
	// What was begun is not to be sent.
	void drop(FrameDraft& draft) { open_.resize(draft.start_); }
	std::size_t body_size(const FrameDraft& draft) const { return open_.size() - draft.start_ - FrameHeader::bytes; }
	// False: no message of the channel can hold it with an attachment of so many bytes.
	bool fits(const FrameDraft& draft, std::size_t attachment) const {
		return open_.size() - draft.start_ + attachment <= channel_.message_max();
	}

	// Returns 0 if nothing of the attachment is needed any more, or a number for sent() and detach().
	std::uint64_t finish(FrameDraft& draft, Attachment attachment = {});

	// Waits until the message of that number is sent, or will never be.
	bool sent(std::uint64_t number) const { return number < next_number_ - queue_.size() || ended_; }
	async::Park until_progress() { return async::Park(waiting_); }
	void say_progress() { channel_.loop().resume_soon(waiting_); }
	// Its attachment's bytes are about to go: what is not sent yet is copied.
	void detach(std::uint64_t number);

	std::size_t queued_bytes() const { return queued_bytes_ + open_.size(); }
	// Whoever can wait with what he has to send waits then.
	bool crowded() const { return queued_bytes() >= unsent_max_; }
	void tell_when_uncrowded(Uncrowded& who) {
		if (!who.linked()) crowd_.push_back(who);
	}
	// Told one by one: what the first one sends may fill it again.
	void tell_next() {
		if (crowd_.empty() || crowded()) return;
		crowd_.pop_front()->uncrowded();
		if (!crowd_.empty()) channel_.loop().at_turn_end(*this);
	}
	bool ended() const { return ended_; }  // nothing can be sent any more
	bool idle() const { return queue_.empty() && open_.empty() && lent_under_way_ == 0; }
	const OutboxCounters& counters() const { return counters_; }
	void flush();  // now, and not at the end of the turn

private:
	struct Item {
		Buffer head;
		Attachment attachment;
	};
	// Its attachment is registered memory, which the peer fetches: several are under way at once, and what follows may
	// overtake them.
	struct Lent {
		Item item;
		async::Job job;
		bool over = false;
	};
	void turn_ends() override {
		flush();
		tell_next();
	}
	void close_batch(std::size_t size);
	void push(Buffer head, Attachment attachment);
	void pump();
	void try_sending();
	void finished();
	void account(Item& item, bool sent);
	async::Task<void> write_on();
	void lend_first();
	async::Task<void> carry(Lent& lent);
	Buffer take_spare();

	channel::Channel& channel_;
	std::size_t batch_max_, unsent_max_;
	Buffer open_;
	std::deque<Item> queue_;  // the first one is `sending_`, if that is there
	std::size_t queued_bytes_ = 0;
	std::uint64_t next_number_ = 1;
	std::optional<channel::Channel::Sending> sending_;  // what the channel has not taken whole
	std::vector<Buffer> spares_;
	async::List<async::Waiter> waiting_;
	async::List<Uncrowded> crowd_;
	std::coroutine_handle<> writer_waits_;  // where the channel resumes who waits for `sending_`
	bool ended_ = false;
	OutboxCounters counters_;
	std::vector<std::unique_ptr<Lent>> lent_;
	std::size_t lent_under_way_ = 0;
	async::Job writer_;
};

}  // namespace verbena::rpc
