// SPDX-License-Identifier: Apache-2.0
// A received message that several objects hold views of. The reader has it on its stack (Arrived);
// code that needs the bytes longer takes a MessageShare, which keeps them.
//
// share() copies a message of up to 4 KiB instead of keeping it. Such a message lies in a receive
// buffer of the connection, and the peer has no credit for another message until the buffer is
// free: a handler that holds many of them and waits for more would deadlock.
//
// Threads: an Arrived belongs to the connection's I/O thread. A MessageShare may be copied and
//   destroyed on any thread; the message itself is released on its I/O thread.
// Lifetime: views into Arrived::bytes() dangle with it; those that kept() returns live as long as
//   the last share.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "lib/channel/channel.h"
#include "lib/rpc/io_threads.h"

namespace verbena::rpc {

// Whether an object that needs `part` bytes of a message of `whole` bytes should copy them: to keep
// the message would take more than twice their memory, or they are few.
constexpr bool worth_copying(std::size_t part, std::size_t whole) { return part <= 4096 || 2 * part < whole; }

// A counted reference to the bytes of a message; null by default.
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
	std::size_t size() const { return held_ != nullptr ? held_->size : 0; }  // bytes that it keeps

private:
	friend class Arrived;
	struct Held {
		channel::Message message;
		std::unique_ptr<std::byte[]> copy;  // the bytes of a small message, instead of `message`
		std::size_t size;
		IoThread& home;
		std::atomic<int> holders;
	};
	explicit MessageShare(Held* held) : held_(held) {}
	Held* held_ = nullptr;
};

// A message that is being read, on the stack of its reader.
class Arrived {
public:
	Arrived(channel::Message message, IoThread& home)
		: message_(std::move(message)), bytes_(message_.bytes()), home_(home) {}
	Arrived(const Arrived&) = delete;
	Arrived& operator=(const Arrived&) = delete;

	// The bytes as they were received, valid as long as this object.
	std::span<const std::byte> bytes() const { return bytes_; }
	// Returns a share; all shares of one message keep the same bytes.
	MessageShare share() {
		if (shared_) return shared_;
		if (bytes_.size() <= copied_max) {
			auto copy = std::make_unique_for_overwrite<std::byte[]>(bytes_.size());
			std::ranges::copy(bytes_, copy.get());
			kept_ = copy.get();
			shared_ = MessageShare(new MessageShare::Held{{}, std::move(copy), bytes_.size(), home_, 1});
		} else {
			shared_ = MessageShare(new MessageShare::Held{std::move(message_), {}, bytes_.size(), home_, 1});
		}
		return shared_;
	}
	// Returns the location of this part of bytes() in the memory that shares keep. To be called
	// after share(), which may copy the bytes.
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
