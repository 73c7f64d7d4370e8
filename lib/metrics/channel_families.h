// SPDX-License-Identifier: Apache-2.0
// The counters of channels as metrics, for every server above them.
//
// Threads: each function that takes an object with a loop runs on that loop's thread; on_loop()
//   takes it there.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <span>

#include "lib/channel/acceptor.h"
#include "lib/channel/mux.h"
#include "lib/metrics/families.h"

namespace verbena::metrics {

// Calls `read` on the loop's thread, from another thread, and returns its result. Empty if the loop
// does not run it in time, because it is about to end; `read` may still run later, so it must own
// what it uses or outlive the loop.
template <class Read>
auto on_loop(async::Loop& loop, Read read, std::chrono::milliseconds patience = std::chrono::milliseconds(250)) {
	using Result = decltype(read());
	const auto promise = std::make_shared<std::promise<Result>>();
	auto future = promise->get_future();
	loop.post([promise, read = std::move(read)] { promise->set_value(read()); });
	return future.wait_for(patience) == std::future_status::ready ? std::optional<Result>(future.get()) : std::nullopt;
}

// Call on the transports' loop. The figures of several transports are summed; those of a device and
// its port stand once for each.
Families transport_families(std::span<const std::unique_ptr<channel::RcTransport>> transports);
Families transport_families(channel::RcTransport& transport);
// The sums of all carriers.
Families mux_families(const channel::MuxCounters& counters, std::size_t carriers, std::size_t channels);
// Call on the acceptor's loop.
Families acceptor_families(const channel::Acceptor& acceptor);

}  // namespace verbena::metrics
