// A received message that several hold views of. The first reader has it on the stack (Arrived); who needs it longer
// takes a share, which any thread may keep and let go: the message itself goes back on its own thread. A small message
// is copied for that, because it lies in a receive buffer that the sender needs: whoever waits for more messages while
// holding these would wait for ever.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "lib/channel/channel.h"
#include "lib/rpc/io_threads.h"

namespace verbena::rpc {

class MessageShare {
public:
	MessageShare() = default;
	MessageShare(const MessageShare& other) : held_(other.held_) {
		if (held_ != nullptr) held_->holders.fetch_add(1, std::memory_order_relaxed);
	}
	MessageShare(MessageShare&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
	MessageShare& operator=(MessageShare other) noexcept {
		std::swap(held_, other.held_);
		return *this;
	}
	~MessageShare() {
		if (held_ == nullptr || held_->holders.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
		held_->home.run([held = held_] { delete held; });
	}
	explicit operator bool() const { return held_ != nullptr; }

private:
	friend class Arrived;
	struct Held {
		channel::Message message;
		std::unique_ptr<std::byte[]> copy;  // in place of it
		IoThread& home;
		std::atomic<int> holders;
	};
	explicit MessageShare(Held* held) : held_(held) {}
	Held* held_ = nullptr;
};

// On its home thread.
class Arrived {
public:
	Arrived(channel::Message message, IoThread& home)
		: message_(std::move(message)), bytes_(message_.bytes()), home_(home) {}
	Arrived(const Arrived&) = delete;
	Arrived& operator=(const Arrived&) = delete;

	// As it came; stays there as long as this.
	std::span<const std::byte> bytes() const { return bytes_; }
	MessageShare share() {
		if (shared_) return shared_;
		if (bytes_.size() <= copied_max) {
			auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes_.size());
			std::ranges::copy(bytes_, copy.get());
			kept_ = copy.get();
			shared_ = MessageShare(new MessageShare::Held{{}, std::move(copy), home_, 1});
		} else {
			shared_ = MessageShare(new MessageShare::Held{std::move(message_), {}, home_, 1});
		}
		return shared_;
	}
	// The same part of it where it lies for those who have a share.
	std::span<const std::byte> kept(std::span<const std::byte> part) const {
		return part.empty() ? part : std::span(kept_ + (part.data() - bytes_.data()), part.size());
	}

private:
	static constexpr std::size_t copied_max = 4096;

	channel::Message message_;
	std::span<const std::byte> bytes_;
	const std::byte* kept_ = bytes_.data();
	IoThread& home_;
	MessageShare shared_;
};

}  // namespace verbena::rpc
