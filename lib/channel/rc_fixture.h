// SPDX-License-Identifier: Apache-2.0
// For tests: two transports on one device, and channels between them. The device is the NIC of this
// process, or the one that VERBENA_TEST_DEVICE names, so these tests run on other verbs devices
// too.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/channel/rc_channel.h"

namespace verbena::channel::testing_tools {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

struct RcPair {
	std::unique_ptr<RcChannel> a, b;
};

inline lib::DeviceRequest test_device() {
	const char* const name = std::getenv("VERBENA_TEST_DEVICE");
	return {.device = name != nullptr ? name : "", .both_ends_on_this_host = true};
}

// Waits until the condition holds, which is checked every millisecond, or until `patience` is over.
inline async::Task<void> until(async::Loop& loop, std::function<bool()> holds, Nanoseconds patience = 10'000'000'000) {
	const Nanoseconds deadline = monotonic_now() + patience;
	while (!holds() && monotonic_now() < deadline) co_await loop.sleep_for(1'000'000);
}

// Sends to a peer that does not receive, until no message was sent for 10 ms. The sending coroutine
// stays spawned.
inline void fill(async::Loop& loop, Channel& channel) {
	const auto sent = std::make_shared<int>(0);
	loop.spawn([](Channel& channel, std::shared_ptr<int> sent) -> async::Task<void> {
		const std::vector<std::byte> block(1000);
		while (co_await channel.send(block)) ++*sent;
	}(channel, sent));
	loop.complete([](async::Loop& loop, std::shared_ptr<int> sent) -> async::Task<void> {
		for (int before = -1; std::exchange(before, *sent) != *sent;) co_await loop.sleep_for(10'000'000);
	}(loop, sent));
}

// `a` is the first one's, `b` the second one's.
inline RcPair connect(RcTransport& first, RcTransport& second) {
	RcOffer left = first.offer().value(), right = second.offer().value();
	const RcEnd left_end = left.end, right_end = right.end;
	RcPair pair;
	pair.a = first.connect(std::move(left), right_end, "b").value();
	pair.b = second.connect(std::move(right), left_end, "a").value();
	return pair;
}

class TwoTransports {
public:
	explicit TwoTransports(async::Loop& loop) : TwoTransports(loop, loop) {}
	// Each on a loop of its own, so that one can stall while the other runs.
	TwoTransports(async::Loop& first, async::Loop& second) : loops_{&first, &second} {}

	void open(const RcOptions& options = {.units_start = 16, .units_max = 4096, .connections_max = 64}) {
		open(options, options);
	}
	void open(const RcOptions& first, const RcOptions& second) {
		const RcOptions* const options[] = {&first, &second};
		for (std::size_t i = 0; i < 2; ++i) {
			auto opened = RcTransport::open(*loops_[i], test_device(), *options[i]);
			ASSERT_TRUE(opened.has_value()) << opened.error();
			transports_[i] = std::move(*opened);
		}
	}
	RcPair connect() { return testing_tools::connect(*transports_[0], *transports_[1]); }
	RcTransport& operator[](std::size_t index) { return *transports_[index]; }

private:
	async::Loop* loops_[2];
	std::unique_ptr<RcTransport> transports_[2];
};

// Sends every message back, until the channel ends.
inline async::Task<void> echo(Channel& channel) {
	while (true) {
		auto message = co_await channel.receive();
		if (!message) co_return;
		if (!co_await channel.send(message->bytes())) co_return;
	}
}

}  // namespace verbena::channel::testing_tools
