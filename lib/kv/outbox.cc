// SPDX-License-Identifier: Apache-2.0
#include "lib/kv/outbox.h"

namespace verbena::kv {
namespace {

// A longer buffer is not kept for reuse.
constexpr std::size_t spare_max = 64 << 10;

}  // namespace

// Suspends write(). If the channel does not take a message at once, push() hands writer_ to the
// send, which resumes it when the message has been taken.
class Outbox::Blocked {
public:
	explicit Blocked(Outbox& outbox) : outbox_(outbox) {}
	bool await_ready() const { return false; }
	void await_suspend(std::coroutine_handle<> handle) { outbox_.writer_ = handle; }
	void await_resume() const {}

private:
	Outbox& outbox_;
};

Outbox::Outbox(channel::Channel& channel, std::size_t message_max, UnsentRecords* all)
	: channel_(channel), message_max_(message_max), all_(all) {
	write();
}

void Outbox::count(std::ptrdiff_t bytes) {
	if (all_ == nullptr) return;
	kept_ += static_cast<std::size_t>(bytes);
	all_->bytes += static_cast<std::size_t>(bytes);
}

void Outbox::begin_message() {
	count(-static_cast<std::ptrdiff_t>(spare_.size()));
	waiting_.emplace_back();
	waiting_.back().memory.swap(spare_);
	channel_.loop().at_turn_end(*this);
}

// Makes room for a record at the end of the last message.
std::byte* Outbox::append(std::size_t bytes) {
	Outgoing& message = waiting_.back();
	const std::size_t at = message.used;
	message.used += bytes;
	if (message.used > message.memory.size()) message.memory.resize(std::max(message.used, 2 * at));
	queued_ += bytes;
	count(static_cast<std::ptrdiff_t>(bytes));
	return message.memory.data() + at;
}

std::byte* Outbox::put(std::size_t bytes) {
	if (waiting_.empty() || waiting_.back().closed || waiting_.back().used + bytes > message_max_) {
		begin_message();
	} else if (waiting_.back().count >= records_early && !sending_) {
		push();
		begin_message();
	}
	++waiting_.back().count;
	return append(bytes);
}

std::byte* Outbox::put(std::size_t head_bytes, Bytes body, Value keep) {
	begin_message();
	std::byte* const at = append(head_bytes);
	Outgoing& message = waiting_.back();
	message.body = body;
	message.keep = std::move(keep);
	message.closed = true;
	queued_ += body.size();
	return at;
}

// A body is identified by its address. It may be queued, or partly sent (`current_`).
void Outbox::detach(Bytes body) {
	const auto own = [&](Outgoing& message) {
		if (message.body.data() != body.data() || message.body.empty()) return false;
		message.own_body.assign(message.body.begin(), message.body.end());
		message.body = message.own_body;
		return true;
	};
	if (sending_ && own(current_)) sending_->body = current_.body;
	for (std::size_t i = first_; i < waiting_.size(); ++i) own(waiting_[i]);
}

// While a message is being sent, write() continues the queue.
void Outbox::turn_ends() {
	if (!sending_) push();
}

// Sends messages until the channel cannot take one at once, or none is left.
void Outbox::push() {
	while (first_ < waiting_.size()) {
		current_ = std::move(waiting_[first_]);
		if (++first_ == waiting_.size()) {
			waiting_.clear();
			first_ = 0;
		}
		queued_ -= current_.used + current_.body.size();
		if (ended_) {
			count(-static_cast<std::ptrdiff_t>(current_.used));
			continue;
		}
		sending_.emplace(channel_, current_.records(), current_.body);
		if (!sending_->await_ready()) return sending_->await_suspend(writer_);
		finish_sending();
	}
	if (!crowded()) channel_.loop().resume_soon(room_);
}

void Outbox::finish_sending() {
	if (!sending_->await_resume()) ended_ = true;
	sending_.reset();
	current_.keep = {};
	current_.body = {};
	std::vector<std::byte>().swap(current_.own_body);
	count(-static_cast<std::ptrdiff_t>(current_.used));
	if (current_.memory.size() > spare_.size() && current_.memory.size() <= spare_max && !others_wait()) {
		count(static_cast<std::ptrdiff_t>(current_.memory.size()) - static_cast<std::ptrdiff_t>(spare_.size()));
		spare_ = std::move(current_.memory);
	}
	std::vector<std::byte>().swap(current_.memory);
}

// Resumed after each message for which push() had to wait.
Running Outbox::write() {
	while (true) {
		co_await Blocked(*this);
		finish_sending();
		push();
	}
}

}  // namespace verbena::kv
