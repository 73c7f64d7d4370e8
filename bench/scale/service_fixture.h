// SPDX-License-Identifier: Apache-2.0
// Test fixture: an echo service of this process, which runs until the end of the test.
#pragma once

#include <gtest/gtest.h>

#include <thread>

#include "bench/scale/echo_service.h"
#include "lib/channel/rc_fixture.h"

namespace verbena::scale::testing_tools {

class RunningService {
public:
	explicit RunningService(const channel::RcOptions& rc = {})
		: service_({.where = async::resolve("127.0.0.1", 0).value(),
			  .protection = channel::ClearText{},
			  .wish = channel::testing_tools::test_device(),
			  .rc = rc,
			  .acceptor = {.protection = channel::ClearText{}},
			  .quiet = true,
			  .rdmacm = false}) {
		const auto started = service_.start();
		EXPECT_TRUE(started.has_value()) << started.error();
		running_ = std::jthread([this] { service_.run(); });
	}
	~RunningService() { service_.stop(); }

	std::uint16_t port() const { return service_.port(); }
	const EchoCounts& counts() const { return service_.counts(); }
	void stop() { service_.stop(); }

private:
	EchoService service_;
	std::jthread running_;  // ends before the service
};

}  // namespace verbena::scale::testing_tools
