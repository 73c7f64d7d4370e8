// SPDX-License-Identifier: Apache-2.0
// RawClient: a client that sends bytes of the test's choice, over TCP in plain text.
//
// Threads: belongs to one thread; each method blocks it.
// Errors: those of the connection fail the test.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lib/channel/connect.h"
#include "lib/rpc/frame.h"
#include "lib/rpc/serialize.h"

namespace rpc_test {

class RawClient {
public:
	explicit RawClient(const std::string& address) {
		loop_.complete(connect(*this, {.protection = verbena::channel::ClearText{}, .host = address}));
	}
	~RawClient() {
		if (channel_ != nullptr) loop_.complete(close(*this));
	}
	RawClient(const RawClient&) = delete;
	RawClient& operator=(const RawClient&) = delete;

	// Sends a message, and returns when the channel has taken it. False: the connection has ended.
	bool send(const verbena::rpc::Buffer& message) {
		bool sent = false;
		if (channel_ != nullptr) loop_.complete(send(*this, message, sent));
		return sent;
	}
	// Receives messages until they held `count` frames in all. Returns the headers of the frames,
	// which are fewer if the connection has ended.
	std::vector<verbena::rpc::FrameHeader> receive(std::size_t count) {
		std::vector<verbena::rpc::FrameHeader> frames;
		if (channel_ != nullptr) loop_.complete(receive(*this, count, frames));
		return frames;
	}

private:
	using Work = verbena::async::Task<void>;
	static Work connect(RawClient& self, verbena::channel::ConnectOptions options) {
		auto connected = co_await verbena::channel::connect_tcp(self.loop_, std::move(options));
		if (connected) self.channel_ = std::move(*connected);
		else ADD_FAILURE() << connected.error();
	}
	static Work send(RawClient& self, const verbena::rpc::Buffer& message, bool& sent) {
		const auto result = co_await self.channel_->send(message);
		sent = result.has_value();
	}
	static Work receive(RawClient& self, std::size_t count, std::vector<verbena::rpc::FrameHeader>& frames) {
		while (frames.size() < count) {
			const auto message = co_await self.channel_->receive();
			if (!message) break;
			verbena::rpc::FrameReader reader(message->bytes(), {});
			while (!reader.done()) {
				const auto frame = reader.next();
				if (!frame) break;
				frames.push_back(frame->header);
			}
		}
	}
	static Work close(RawClient& self) {
		self.channel_->close();
		co_await self.channel_->until_closed();
	}

	verbena::async::Loop loop_;
	std::unique_ptr<verbena::channel::Channel> channel_;
};

// Returns the bytes of a frame. Its body is `body_bytes` nils of MessagePack.
inline verbena::rpc::Buffer frame_bytes(verbena::rpc::FrameHeader header, std::size_t body_bytes = 0) {
	verbena::rpc::Buffer bytes(verbena::rpc::FrameHeader::bytes + body_bytes, std::byte{0xc0});
	header.body_length = static_cast<std::uint32_t>(body_bytes);
	if (body_bytes > 0) header.serialization = verbena::rpc::Serialization::msgpack;
	header.write(std::span<std::byte>(bytes).first<verbena::rpc::FrameHeader::bytes>());
	return bytes;
}
inline void append(verbena::rpc::Buffer& to, const verbena::rpc::Buffer& bytes) {
	to.insert(to.end(), bytes.begin(), bytes.end());
}

}  // namespace rpc_test
