// StreamEnd: one end of a stream of items, without their types: what has arrived and was not read, and what the peer
// still has room for.
//
// Of its home thread, but for what says otherwise. Its connection gives it what comes for its sequence number, and ends
// it: with the answer of the function, when its caller gives up, or when the connection breaks. From then on it takes
// nothing, and needs its connection no more. One reader and one writer at a time.
#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "lib/rpc/io_threads.h"
#include "lib/rpc/outbox.h"
#include "lib/rpc/stream_window.h"

namespace verbena::rpc {

class StreamEnd final : private async::Timer, private Uncrowded {
public:
	// Destroyed on its home thread, whoever lets go of it last.
	static std::shared_ptr<StreamEnd> make(IoThread& home, std::uint32_t window, std::uint32_t item_max);
	~StreamEnd();
	StreamEnd(const StreamEnd&) = delete;
	StreamEnd& operator=(const StreamEnd&) = delete;

	IoThread& home() const { return home_; }
	// The stream is known to the peer, or will be before anything that is written now. `outbox` stays until end().
	void begin(Outbox& outbox, std::uint32_t sequence);
	void end_at(Nanoseconds deadline);
	// An item, a window or a done. False: no peer may send this.
	bool take(const Frame& frame, Arrived& arrived);
	// The first counts. What has arrived can still be read; behind it is the end, or the error.
	void end(rpc_error why);

	void stop_writing();  // the peer is told
	void discard();  // what is unread, and what still comes

	// Awaited: until something can be read or written, or never will be. From any thread; goes on at home.
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

	template <class T> rpc_result<std::optional<T>> read() {
		if (items_.empty()) {
			if (error_) return std::unexpected(error_);
			return std::nullopt;
		}
		if (!unpacker_) unpacker_.emplace();
		std::optional<T> value(std::in_place);
		const bool understood = unpack_value(*unpacker_, items_.front().body, *value);
		drop_first();
		if (!understood)
			return std::unexpected(rpc_error(errc::invalid_rpc_result, "an item cannot be read as the stream's type"));
		return value;
	}
	template <class T> rpc_result<void> write(const T& value) {
		if (outbox_ == nullptr || writes_done_) return std::unexpected(why_not());
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
	struct Item {
		Buffer copy;  // of a small one
		MessageShare share;  // of the others: the message that it came in
		std::span<const std::byte> body;
	};

	StreamEnd(IoThread& home, std::uint32_t window, std::uint32_t item_max)
		: home_(home), item_max_(item_max), reads_(window) {}
	bool ready(Wait::For what) const {
		const bool over = outbox_ == nullptr;
		if (what == Wait::For::reading) return !items_.empty() || peer_done_ || over;
		return over || writes_done_ || (writes_.open() && !outbox_->crowded());
	}
	void wait(Wait& who, Wait::For what) {
		(what == Wait::For::reading ? readers_ : writers_).push_back(who);
		if (what == Wait::For::writing) wake_writer();
		else if (ready(what)) home_.loop().resume_soon(readers_);
	}
	// The peer may have granted more than is to lie here unsent.
	void wake_writer() {
		if (ready(Wait::For::writing)) home_.loop().resume_soon(writers_);
		else if (outbox_->crowded()) outbox_->tell_when_uncrowded(*this);
	}
	void uncrowded() override { wake_writer(); }
	void expire() override;
	void say(const FrameHeader& header);
	void grant(std::uint32_t bytes);
	void drop_first();
	rpc_error why_not() const;
	rpc_result<void> send(FrameDraft& draft);

	IoThread& home_;
	std::uint32_t item_max_;
	Outbox* outbox_ = nullptr;  // null: not begun, or over
	std::uint32_t sequence_ = 0;
	ReadWindow reads_;
	WriteWindow writes_;
	std::deque<Item> items_;
	bool ended_ = false, peer_done_ = false, writes_done_ = false, discards_ = false;
	rpc_error error_;
	std::optional<Unpacker> unpacker_;
	async::List<async::Waiter> readers_, writers_;
};

}  // namespace verbena::rpc
