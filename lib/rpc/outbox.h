// SPDX-License-Identifier: Apache-2.0
// Outbox: the send queue of one end of a connection. Its frames are those of lib/rpc/frame.h.
//
//     FrameDraft draft = outbox.begin(header);     // one draft at a time
//     pack_value(draft.buffer(), value);           // the body
//     outbox.finish(draft, attachment);
//
// Frames of one turn of the loop leave together: those that fit into a batch are one channel
// message, and so one write to a socket or one work request. A frame whose attachment does not fit
// into a batch is a message of its own, and its attachment is not copied into the batch.
//
// Threads: belongs to the thread of the channel's loop.
// Owns: the queued frames, and attachments whose AttachmentOwner is not std::monostate.
// Lifetime: an outbox must be destroyed before its channel; its unsent frames are dropped.
// Errors: once a send has failed, ended() is true and no more frames are sent. The code that
//   receives from the channel gets the reason.
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
#include "lib/rpc/budget.h"
#include "lib/rpc/frame.h"
#include "lib/rpc/serialize.h"
#include "lib/rpc/shared_message.h"

namespace verbena::rpc {

// The owner of an attachment's bytes until they are sent: the caller, which keeps them unchanged
// until then (monostate); a string; a received message; or registered memory, from which the
// channel sends without a copy.
using AttachmentOwner = std::variant<std::monostate, std::string, MessageShare, channel::Place>;

// An attachment to be sent. If the owner is a string, `bytes` is ignored and may be empty: moving a
// short string moves its bytes.
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
	std::uint64_t messages = 0;  // messages sent; frames / messages is the average batch
	std::uint64_t large = 0;  // frames that were a message of their own
};

// Returns the largest batch in bytes, which fits into one RC unit or usually into one write to a
// socket. Returns 0 if `coalesce` is false: each frame is then a message of its own.
std::size_t batch_max_of(const channel::Channel& channel, bool coalesce);

// A frame that is being written. Its buffer is the outbox's open batch, to which the writer may
// only append.
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

// A writer that waits until the outbox is no longer crowded. uncrowded() is called once for each
// notify_when_uncrowded(); the writer then sends and calls Outbox::notify_next().
class Uncrowded : public async::Linked {
public:
	virtual void uncrowded() = 0;

protected:
	~Uncrowded() = default;
};

class Outbox final : public async::TurnEnd {
public:
	// `batch_max`: see batch_max_of(). `unsent_max`: crowded() is true from this many bytes on.
	// `budget`: null, or counts the queued messages; it must outlive the outbox.
	Outbox(channel::Channel& channel, std::size_t batch_max, std::size_t unsent_max, Budget* budget = nullptr);
	~Outbox();

	FrameDraft begin(const FrameHeader& header) { return {open_, header}; }
	// Discards a draft.
	void drop(FrameDraft& draft) { open_.resize(draft.start_); }
	std::size_t body_size(const FrameDraft& draft) const { return open_.size() - draft.start_ - FrameHeader::bytes; }
	// Returns whether one message of the channel can hold the draft with an attachment of this many
	// bytes.
	bool fits(const FrameDraft& draft, std::size_t attachment) const {
		return open_.size() - draft.start_ + attachment <= channel_.message_max();
	}

	// Queues a draft. Returns 0 if the caller's attachment bytes are no longer needed. Otherwise
	// returns the number of the message, for sent() and detach(), and the bytes must stay unchanged
	// until sent() is true.
	std::uint64_t finish(FrameDraft& draft, Attachment attachment = {});

	// Returns whether the message with that number has left the queue: it is sent, or the peer is
	// fetching its attachment from registered memory, or the channel has failed.
	bool sent(std::uint64_t number) const { return number < next_number_ - queue_.size() || ended_; }
	// Waits until a message was sent, or the outbox has ended or is destroyed.
	async::Park until_progress() { return async::Park(waiting_); }
	// Resumes the coroutines that wait in until_progress().
	void notify_progress() { channel_.loop().resume_soon(waiting_); }
	// The caller is about to free the attachment of the message with that number: copies the
	// attachment if it is unsent and no AttachmentOwner keeps it.
	void detach(std::uint64_t number);

	// Unsent bytes: queued frames with their attachments, and the open batch.
	std::size_t queued_bytes() const { return queued_bytes_ + open_.size(); }
	// Backpressure: while this is true, requests and the items of streams must wait. Responses and
	// control frames need not wait.
	bool crowded() const { return queued_bytes() >= unsent_max_; }
	void notify_when_uncrowded(Uncrowded& who) {
		if (!who.linked()) uncrowded_listeners_.push_back(who);
	}
	// Calls the first waiting writer unless crowded(). The next writer is called at the end of the
	// turn, because the frames of the first may crowd the outbox again.
	void notify_next() {
		if (uncrowded_listeners_.empty() || crowded()) return;
		uncrowded_listeners_.pop_front()->uncrowded();
		if (!uncrowded_listeners_.empty()) channel_.loop().at_turn_end(*this);
	}
	bool ended() const { return ended_; }  // the channel has failed: nothing more is sent
	// Returns whether all finished frames are sent.
	bool idle() const { return queue_.empty() && open_.empty() && fetches_in_flight_ == 0; }
	const OutboxCounters& counters() const { return counters_; }
	void flush();  // sends the open batch now instead of at the end of the turn

private:
	// One channel message: a batch, or the frame of a large attachment.
	struct Item {
		Buffer head;
		Attachment attachment;
	};
	// A message in flight whose attachment is registered memory. The peer fetches it by RDMA READ,
	// so that several are in flight at once, and messages behind it may overtake it.
	struct FetchedItem {
		Item item;
		async::Job job;
		bool over = false;  // fetched, or failed
	};
	void turn_ends() override {
		flush();
		notify_next();
	}
	void close_batch(std::size_t size);  // queues the first `size` bytes of the open batch
	void push(Buffer head, Attachment attachment);
	void pump();  // gives queued messages to the channel until the next one has to wait
	void try_sending();
	void finished();  // the channel has taken or refused `sending_`
	void account(Item& item, bool sent);
	async::Task<void> write_on();  // the coroutine that the channel resumes: the body of writer_
	// These send the first item of the queue, whose attachment is registered memory:
	// start_fetch_of_first() starts the job, and carry() is the job's body.
	void start_fetch_of_first();
	async::Task<void> carry(FetchedItem& fetched);
	Buffer take_spare();  // returns an empty buffer, one from spares_ if there is one

	channel::Channel& channel_;
	std::size_t batch_max_, unsent_max_;
	Budget* budget_;
	Buffer open_;  // the open batch: finished frames, and behind them the draft
	std::deque<Item> queue_;  // the first item is the one in `sending_`, if that has a value
	std::size_t queued_bytes_ = 0;  // including the messages in fetched_items_
	std::uint64_t next_number_ = 1;  // the number of the next item
	std::optional<channel::Channel::Sending> sending_;  // the message that the channel is taking
	std::vector<Buffer> spares_;  // empty buffers of sent messages, kept for their capacity
	async::List<async::Waiter> waiting_;  // until_progress()
	async::List<Uncrowded> uncrowded_listeners_;
	std::coroutine_handle<> writer_handle_;  // write_on(), which the channel resumes for `sending_`
	bool ended_ = false;
	OutboxCounters counters_;
	// Items that are over stay here until the next fetch starts.
	std::vector<std::unique_ptr<FetchedItem>> fetched_items_;
	std::size_t fetches_in_flight_ = 0;
	async::Job writer_;  // the last member: its coroutine uses the others
};

}  // namespace verbena::rpc
