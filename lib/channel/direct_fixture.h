// SPDX-License-Identifier: Apache-2.0
// For tests of direct operations and of fetched messages: two channels that have them, and memory
// with known contents.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "lib/async/job.h"
#include "lib/channel/rc_fixture.h"

namespace verbena::channel::testing_tools {

using async::Task;

// Sends the other end a message, so that a window is bound before the peer uses it.
inline Task<RemoteMemory> told(Channel& from, Channel& to, RemoteMemory remote) {
	co_await from.send(std::as_bytes(std::span(&remote, 1)));
	const auto message = co_await to.receive();
	std::memcpy(&remote, message->bytes().data(), sizeof remote);
	co_return remote;
}

class Direct : public ::testing::Test {
protected:
	void open(const RcOptions& options) { open(options, options); }
	void open(const RcOptions& of_a, const RcOptions& of_b) {
		a_.reset();
		b_.reset();
		transports_.open(of_a, of_b);
		auto [a, b] = transports_.connect();
		a_ = std::move(a);
		b_ = std::move(b);
	}
	void SetUp() override { open(options_); }
	void TearDown() override {
		loop_.abandon_spawned();
		a_.reset();
		b_.reset();
		for (RcTransport* transport : {&transports_[0], &transports_[1]}) EXPECT_EQ(transport->windows_in_use(), 0u);
	}

	Lease share_with_b(Place place) {
		std::optional<Lease> lease;
		loop_.complete([](Channel& owner, Channel& reader, Place place, std::optional<Lease>& lease) -> Task<void> {
			auto leased = co_await owner.share(place, Right::read);
			lease = std::move(*leased);
			co_await told(owner, reader, lease->remote());
		}(*a_, *b_, std::move(place), lease));
		return std::move(*lease);
	}

	RcOptions options_{.units_start = 16, .units_max = 4096, .connections_max = 64};
	async::Loop loop_;
	TwoTransports transports_{loop_};
	std::unique_ptr<RcChannel> a_, b_;
};

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
	std::vector<std::byte> bytes(size);
	std::minstd_rand random(seed);
	std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random() >> 8); });
	return bytes;
}

inline Buffer filled(MemoryPool& pool, std::span<const std::byte> with) {
	Buffer buffer = pool.take(with.size());
	std::ranges::copy(with, buffer.data());
	return buffer;
}

}  // namespace verbena::channel::testing_tools
