// What channels count, as metrics: for every server above them.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>

#include "lib/channel/acceptor.h"
#include "lib/channel/mux.h"
#include "lib/metrics/families.h"

namespace verbena::metrics {

// `read` on the loop's thread, from another one. Nothing if the loop does not answer in time: it is about to end.
template <class Read>
auto on_loop(async::Loop& loop, Read read, std::chrono::milliseconds patience = std::chrono::milliseconds(250)) {
	using Result = decltype(read());
	const auto promise = std::make_shared<std::promise<Result>>();
	auto future = promise->get_future();
	loop.post([promise, read = std::move(read)] { promise->set_value(read()); });
	return future.wait_for(patience) == std::future_status::ready ? std::optional<Result>(future.get()) : std::nullopt;
}

// On the transport's loop.
Families transport_families(channel::RcTransport& transport);
// Of all carriers together.
Families mux_families(const channel::MuxCounters& counters, std::size_t carriers, std::size_t channels);
// On the acceptor's loop.
Families acceptor_families(const channel::Acceptor& acceptor);

}  // namespace verbena::metrics
