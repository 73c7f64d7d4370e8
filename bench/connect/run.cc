// SPDX-License-Identifier: Apache-2.0
#include "bench/connect/run.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace verbena::connect {
namespace {

// Begins `count` operations, at most `window` of them under way at once; returns the elapsed time.
Nanoseconds run(std::uint32_t count, std::uint32_t window, const std::function<void(std::uint32_t)>& begin,
	const std::function<void()>& take_one) {
	std::uint32_t begun = 0;
	const Nanoseconds start = monotonic_now();
	while (begun < std::min(window, count)) begin(begun++);
	for (std::uint32_t ended = 0; ended < count; ++ended) {
		take_one();
		if (begun < count) begin(begun++);
	}
	return monotonic_now() - start;
}

}  // namespace

void connect_all(Connector& connector, Repetition& r) {
	r.connect_elapsed_ns = run(
		r.count, r.clients, [&](std::uint32_t number) { connector.begin(number); },
		[&] {
			const Report report = connector.next();
			check(report.kind == Report::Kind::established, "no connection ends before end() is called");
			r.total.record(report.ended - report.began);
			r.total_sum_ns += report.ended - report.began;
			for (std::size_t i = 0; i < r.parts.size(); ++i) r.parts[i].record(report.parts[i]);
		});
}

void disconnect_all(Connector& connector, Repetition& r) {
	r.disconnect_elapsed_ns = run(
		r.count, r.clients, [&](std::uint32_t number) { connector.end(number); },
		[&] {
			const Report report = connector.next();
			r.disconnect.record(report.ended - report.began);
			r.disconnect_sum_ns += report.ended - report.began;
		});
}

}  // namespace verbena::connect
