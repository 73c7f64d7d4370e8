// SPDX-License-Identifier: Apache-2.0
// StreamEnd: one end of a stream, without the types of its items: the items that have arrived and
// are unread, and the windows of both directions.
//
// The connection gives it the frames that arrive for its sequence number, and ends it: with the
// function's response, when the caller cancels, or when the connection breaks. After end() it sends
// nothing and does not use its connection any more.
//
// Threads: belongs to its home thread, except make() and Wait, which are thread-safe. One reader
//   and one writer at a time.
// Owns: the unread items.
// Lifetime: shared by the connection, the handle and those that wait; destroyed on its home thread.
//   The connection must call end() before it destroys the outbox.
// Errors: the peer is untrusted: take() reports a frame that breaks the stream's rules.
#pragma once

#include <memory>
#include <optional>

#include "lib/rpc/io_threads.h"
#include "lib/rpc/outbox.h"
#include "lib/rpc/stream_window.h"
#include "lib/rpc/unread_items.h"

namespace verbena::rpc {

class StreamEnd final : private async::Timer, private Uncrowded {
public:
	// `window`: bytes of unread items; `item_max`: the largest item that may be written, in bytes;
	// `counted`: counts the memory of unread items, null: it has no limit but the window.
	static std::shared_ptr<StreamEnd> make(
		IoThread& home, std::uint32_t window, std::uint32_t item_max, std::shared_ptr<ItemBytes> counted);
	~StreamEnd();
	StreamEnd(const StreamEnd&) = delete;
	StreamEnd& operator=(const StreamEnd&) = delete;

	IoThread& home() const { return home_; }
	// Starts the stream. The frame that opens it must be in the outbox already, or have arrived.
	void begin(Outbox& outbox, std::uint32_t sequence);
	// Ends the stream with errc::timed_out at this time; `never`: it has no deadline.
	void end_at(Nanoseconds deadline);
	// Takes an item, window or done frame. `breach`: no peer may send this. `no_room`: the item was
	// dropped, so the stream must end.
	enum class Taken : std::uint8_t { yes, breach, no_room };
	Taken take(const Frame& frame, Arrived& arrived);
	// Ends the stream; only the first call has an effect. Items that have arrived can still be
	// read, and then the end, or the error if `why` is one.
	void end(rpc_error why);

	void stop_writing();  // sends done to the peer; later writes fail
	void discard();  // drops unread items, and those that arrive later

	// Waits until an item can be read or written, or never will be. May be awaited on any thread;
	// the coroutine continues on the home thread.
	class Wait : public async::Waiter {
	public:
		enum class For : std::uint8_t { reading, writing };
		Wait(StreamEnd& end, For what) : end_(end), what_(what) {}
		bool await_ready() const { return end_.home_.here() && end_.ready(what_); }
		void await_suspend(std::coroutine_handle<> handle) {
			coroutine = handle;
			end_.home_.run([this] { end_.wait(*this, what_); });
		}

	protected:
		StreamEnd& end_;

	private:
		For what_;
	};

	// After Wait: returns the next item, nothing at the end, or the error that ended the stream.
	template <class T> rpc_result<std::optional<T>> read() {
		if (items_.empty()) {
			if (error_) return std::unexpected(error_);
			return std::nullopt;
		}
		if (!unpacker_) unpacker_.emplace();
		std::optional<T> value(std::in_place);
		const bool understood = unpack_value(*unpacker_, items_.front(), *value);
		unpacker_->release();
		drop_first();
		if (!understood)
			return std::unexpected(rpc_error(errc::invalid_rpc_result, "an item cannot be read as the stream's type"));
		return value;
	}
	// After Wait: queues an item.
	template <class T> rpc_result<void> write(const T& value) {
		if (outbox_ == nullptr || writes_done_) return std::unexpected(reason_for_failed_write());
		FrameDraft draft = outbox_->begin({.kind = FrameKind::item, .sequence = sequence_});
		try {
			pack_value(draft.buffer(), value);
		} catch (const std::exception& error) {
			outbox_->drop(draft);
			return std::unexpected(rpc_error(errc::invalid_rpc_arguments, error.what()));
		}
		return send(draft);
	}

private:
	StreamEnd(IoThread& home, std::uint32_t window, std::uint32_t item_max, std::shared_ptr<ItemBytes> counted)
		: home_(home), item_max_(item_max), reads_(window), items_(std::move(counted)) {}
	Taken take_item(const Frame& frame, Arrived& arrived);
	// Returns whether a read or write can proceed, or will fail.
	bool ready(Wait::For what) const {
		const bool over = outbox_ == nullptr;
		if (what == Wait::For::reading) return !items_.empty() || peer_done_ || over;
		return over || writes_done_ || (writes_.open() && !outbox_->crowded());
	}
	void wait(Wait& who, Wait::For what) {
		(what == Wait::For::reading ? readers_ : writers_).push_back(who);
		if (what == Wait::For::writing) resume_writer_if_ready();
		else if (ready(what)) home_.loop().resume_soon(readers_);
	}
	// Resumes the writer if it can write. The peer's window may be open while the outbox is
	// crowded: then the outbox calls uncrowded() later.
	void resume_writer_if_ready() {
		if (ready(Wait::For::writing)) home_.loop().resume_soon(writers_);
		else if (outbox_->crowded()) outbox_->notify_when_uncrowded(*this);
	}
	void uncrowded() override { resume_writer_if_ready(); }
	void expire() override;  // the deadline of end_at()
	void say(const FrameHeader& header);  // queues a frame without a body
	void grant(std::uint32_t bytes);
	void drop_first();  // removes the first item, and grants its bytes again
	rpc_error reason_for_failed_write() const;  // why nothing can be written any more
	rpc_result<void> send(FrameDraft& draft);

	IoThread& home_;
	std::uint32_t item_max_;
	Outbox* outbox_ = nullptr;  // null before begin() and after end()
	std::uint32_t sequence_ = 0;
	ReadWindow reads_;
	WriteWindow writes_;
	UnreadItems items_;
	bool ended_ = false, peer_done_ = false, writes_done_ = false, discards_ = false;
	rpc_error error_;
	std::optional<Unpacker> unpacker_;
	async::List<async::Waiter> readers_, writers_;
};

}  // namespace verbena::rpc
