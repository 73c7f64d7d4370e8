// SPDX-License-Identifier: Apache-2.0
// The metrics and the health of kv_server (docs/metrics.md).
//
// Threads: ended() belongs to the thread of Service::run(), after run(). Any other thread may call
//   the rest; it waits for the service's loops, 0.25 s for metrics and 1 s for the health at most.
// Lifetime: dies before the service.
#pragma once

#include <atomic>

#include "lib/kv/service.h"
#include "lib/metrics/export.h"

namespace verbena::tools {

class KvMetrics {
public:
	explicit KvMetrics(kv::Service& service) : service_(service) {}

	metrics::Families families();
	// Good if the loop that serves the clients runs. A disk that fails is no reason to start the
	// server anew, so the text alone reports it.
	metrics::Condition health();
	// The loops do not run any more.
	void ended() { ended_.store(true, std::memory_order_release); }

private:
	kv::Service& service_;
	std::atomic<bool> ended_{false};
};

// The families of these facts.
metrics::Families families_of(const kv::Facts& facts);

}  // namespace verbena::tools
