// SPDX-License-Identifier: Apache-2.0
#include "lib/rpc/outbox.h"

namespace verbena::rpc {
namespace {

// For RC: one unit (ibv_config::channel.unit_bytes) without its headers. For TCP: a size that a
// socket usually takes in one write.
constexpr std::size_t batch_of_rc = 4096, batch_of_tcp = 16 << 10;
constexpr std::size_t spares_max = 8;
constexpr std::size_t spare_size_max = 64 << 10;
// Attachments that the peer fetches at once; others wait.
constexpr std::size_t fetches_in_flight_max = 4;

}  // namespace

std::size_t batch_max_of(const channel::Channel& channel, bool coalesce) {
	if (!coalesce) return 0;
	return channel.path().transport == "rc" ? batch_of_rc : batch_of_tcp;
}

Outbox::Outbox(channel::Channel& channel, std::size_t batch_max, std::size_t unsent_max, Budget* budget)
	: channel_(channel),
	  batch_max_(batch_max),
	  unsent_max_(unsent_max),
	  budget_(budget),
	  writer_(channel.loop(), write_on()) {}

// Resumes those that wait for progress, as none will come: they look at their connection again.
Outbox::~Outbox() {
	if (budget_ != nullptr) budget_->give_back(queued_bytes_);
	notify_progress();
}

std::uint64_t Outbox::finish(FrameDraft& draft, Attachment attachment) {
	++counters_.frames;
	if (const auto* const owned = std::get_if<std::string>(&attachment.owner))
		attachment.bytes = std::as_bytes(std::span(*owned));
	draft.header_.body_length = static_cast<std::uint32_t>(body_size(draft));
	draft.header_.attachment_length = static_cast<std::uint32_t>(attachment.bytes.size());
	draft.header_.serialization = draft.header_.body_length > 0 ? Serialization::msgpack : Serialization::none;
	draft.header_.write(std::span<std::byte, FrameHeader::bytes>(open_.data() + draft.start_, FrameHeader::bytes));

	const std::size_t size = open_.size() - draft.start_ + attachment.bytes.size();
	if (draft.start_ > 0 && draft.start_ + size > batch_max_) {
		// The frame does not fit into the batch: the batch leaves, and the frame starts another.
		Buffer tail = take_spare();
		tail.assign(open_.begin() + static_cast<std::ptrdiff_t>(draft.start_), open_.end());
		close_batch(draft.start_);
		open_ = std::move(tail);
		pump();
	}
	if (size <= batch_max_ || attachment.bytes.empty()) {
		open_.insert(open_.end(), attachment.bytes.begin(), attachment.bytes.end());
		channel_.loop().at_turn_end(*this);
		return 0;
	}
	++counters_.large;
	// Only the attachment's bytes are counted, so it does not keep a message that is much longer.
	if (const auto* const share = std::get_if<MessageShare>(&attachment.owner);
		share != nullptr && worth_copying(attachment.bytes.size(), share->size()))
		attachment.owner = std::string(reinterpret_cast<const char*>(attachment.bytes.data()), attachment.bytes.size());
	push(std::exchange(open_, take_spare()), std::move(attachment));
	const std::uint64_t number = next_number_ - 1;
	pump();
	return sent(number) ? 0 : number;
}

Buffer Outbox::take_spare() {
	if (spares_.empty()) return {};
	Buffer spare = std::move(spares_.back());
	spares_.pop_back();
	return spare;
}

void Outbox::push(Buffer head, Attachment attachment) {
	queued_bytes_ += head.size() + attachment.bytes.size();
	if (budget_ != nullptr) budget_->take(head.size() + attachment.bytes.size());
	Item& item = queue_.emplace_back(std::move(head), std::move(attachment));
	// The bytes of a short string are inside the string object, which has moved.
	if (const auto* const owned = std::get_if<std::string>(&item.attachment.owner))
		item.attachment.bytes = std::as_bytes(std::span(*owned));
	++next_number_;
}

void Outbox::close_batch(std::size_t size) {
	Buffer batch = std::exchange(open_, take_spare());
	batch.resize(size);
	push(std::move(batch), {});
}

void Outbox::flush() {
	if (!open_.empty()) close_batch(open_.size());
	pump();
}

void Outbox::pump() {
	// writer_handle_ is null until write_on() has started, which is in the loop's next turn.
	while (!queue_.empty() && !sending_ && writer_handle_) {
		const Item& item = queue_.front();
		if (std::holds_alternative<channel::Place>(item.attachment.owner)) {
			if (fetches_in_flight_ == fetches_in_flight_max) return;
			start_fetch_of_first();
			continue;
		}
		if (item.attachment.bytes.empty()) sending_.emplace(channel_, std::span<const std::byte>(), item.head);
		else sending_.emplace(channel_, item.head, item.attachment.bytes);
		try_sending();
	}
}

// Either the channel takes the message at once, or it resumes the writer when it has taken it.
void Outbox::try_sending() {
	if (sending_->await_ready()) finished();
	else sending_->await_suspend(writer_handle_);
}

void Outbox::finished() {
	const bool sent = sending_->await_resume().has_value();
	sending_.reset();
	account(queue_.front(), sent);
	queue_.pop_front();
}

void Outbox::account(Item& item, bool sent) {
	++counters_.messages;
	if (!sent) ended_ = true;
	queued_bytes_ -= item.head.size() + item.attachment.bytes.size();
	if (budget_ != nullptr) budget_->give_back(item.head.size() + item.attachment.bytes.size());
	if (spares_.size() < spares_max && item.head.capacity() <= spare_size_max) {
		item.head.clear();
		spares_.push_back(std::move(item.head));
	}
	notify_progress();
	notify_next();
}

void Outbox::start_fetch_of_first() {
	std::erase_if(fetched_items_, [](const auto& fetched) { return fetched->over && fetched->job.done(); });
	FetchedItem& fetched = *fetched_items_.emplace_back(std::make_unique<FetchedItem>());
	fetched.item = std::move(queue_.front());
	queue_.pop_front();
	++fetches_in_flight_;
	fetched.job = async::Job(channel_.loop(), carry(fetched));
}

async::Task<void> Outbox::carry(FetchedItem& fetched) {
	channel::Place place = std::get<channel::Place>(fetched.item.attachment.owner);
	const auto sent = co_await channel_.send(fetched.item.head, std::move(place));
	fetched.over = true;
	--fetches_in_flight_;
	fetched.item.attachment.owner = std::monostate();  // the buffer is free again
	account(fetched.item, sent.has_value());
	pump();
}

// A coroutine that only finishes messages for which the channel made us wait. Its handle is stored
// once, so that the common case, a message that is taken at once, resumes no coroutine.
async::Task<void> Outbox::write_on() {
	struct UntilSent {
		Outbox& outbox;
		bool await_ready() const { return false; }
		void await_suspend(std::coroutine_handle<> handle) const {
			if (!std::exchange(outbox.writer_handle_, handle)) outbox.pump();
		}
		void await_resume() const {}
	};
	const UntilSent until_sent{*this};
	while (true) {
		co_await until_sent;
		finished();
		pump();
	}
}

void Outbox::detach(std::uint64_t number) {
	if (number == 0 || sent(number)) return;
	notify_progress();  // a coroutine that waits for this message need not wait any longer
	Item& item = queue_[queue_.size() - static_cast<std::size_t>(next_number_ - number)];
	if (!std::holds_alternative<std::monostate>(item.attachment.owner)) return;  // has an owner
	const auto bytes = item.attachment.bytes;
	std::string copy(reinterpret_cast<const char*>(bytes.data()), bytes.size());
	item.attachment.owner = std::move(copy);
	const auto& kept = std::get<std::string>(item.attachment.owner);
	item.attachment.bytes = std::as_bytes(std::span(kept));
	if (&item == &queue_.front() && sending_) sending_->body = item.attachment.bytes;
}

}  // namespace verbena::rpc
