// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/engine_counters.h"

#include <cerrno>
#include <cstdio>
#include <unistd.h>

namespace verbena::verbs {

void read_counters(engine::Engine& engine, CounterValues& values) {
	engine.control([&](adapter::ChannelAdapter&) {
		values.port = engine.port_counts();
		values.transport = engine.counters();
		values.connections = engine.connection_counters();
	});
}

void print_stats(engine::Engine& engine) {
	CounterValues values;
	read_counters(engine, values);
	for (const Counter& counter : all_counters())
		if (const std::uint64_t value = counter.of(values))
			std::fprintf(stderr, "verbena: %s (%d): %.*s %llu\n", program_invocation_short_name, getpid(),
				static_cast<int>(counter.name.size()), counter.name.data(), static_cast<unsigned long long>(value));
}

}  // namespace verbena::verbs
