// For tests: two transports on one device, and channels between them. The device is the NIC of this process, or the one that
// VERBENA_TEST_DEVICE names: so these tests run on other verbs devices too.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>

#include "lib/channel/rc_channel.h"

namespace verbena::channel::testing_tools {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

struct RcPair {
	std::unique_ptr<RcChannel> a, b;
};

inline lib::Wish test_device() {
	const char* const name = std::getenv("VERBENA_TEST_DEVICE");
	return {.device = name != nullptr ? name : "", .both_ends_on_this_host = true};
}

class TwoTransports {
public:
	explicit TwoTransports(async::Loop& loop) : loop_(loop) {}

	void open(const RcOptions& options = {.units_start = 16, .units_max = 4096, .connections_max = 64}) {
		for (auto& each : transports_) {
			auto opened = RcTransport::open(loop_, test_device(), options);
			ASSERT_TRUE(opened.has_value()) << opened.error();
			each = std::move(*opened);
		}
	}
	// `a` is the first one's, `b` the second one's.
	RcPair connect() {
		RcOffer left = transports_[0]->offer().value(), right = transports_[1]->offer().value();
		const RcEnd left_end = left.end, right_end = right.end;
		RcPair pair;
		pair.a = transports_[0]->connect(std::move(left), right_end, "b").value();
		pair.b = transports_[1]->connect(std::move(right), left_end, "a").value();
		return pair;
	}
	RcTransport& operator[](std::size_t index) { return *transports_[index]; }

private:
	async::Loop& loop_;
	std::unique_ptr<RcTransport> transports_[2];
};

// An echo's other end.
inline async::Task<void> echo(Channel& channel) {
	while (true) {
		auto message = co_await channel.receive();
		if (!message) co_return;
		if (!co_await channel.send(message->bytes())) co_return;
	}
}

}  // namespace verbena::channel::testing_tools
