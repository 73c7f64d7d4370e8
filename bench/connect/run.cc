#include "bench/connect/run.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace verbena::connect {
namespace {

// Begins `count` operations, at most `window` of them under way at once; returns the elapsed
// seconds.
double run(std::uint32_t count, std::uint32_t window, const std::function<void(std::uint32_t)>& begin,
	const std::function<void()>& take_one) {
	std::uint32_t begun = 0;
	const Nanoseconds start = monotonic_now();
	while (begun < std::min(window, count)) begin(begun++);
	for (std::uint32_t ended = 0; ended < count; ++ended) {
		take_one();
		if (begun < count) begin(begun++);
	}
	return static_cast<double>(monotonic_now() - start) / 1e9;
}

}  // namespace

void connect_all(Connector& connector, Repetition& r) {
	for (auto& part : r.part_ns) part.reserve(r.count);
	r.total_ns.reserve(r.count);
	r.connect_s = run(
		r.count, r.clients, [&](std::uint32_t number) { connector.begin(number); },
		[&] {
			const Report report = connector.next();
			check(report.kind == Report::Kind::established, "no connection ends before end() is called");
			r.total_ns.push_back(static_cast<double>(report.ended - report.began));
			for (std::size_t i = 0; i < connector.parts().size(); ++i)
				r.part_ns[i].push_back(static_cast<double>(report.parts[i]));
		});
}

void disconnect_all(Connector& connector, Repetition& r) {
	r.disconnect_ns.reserve(r.count);
	r.disconnect_s = run(
		r.count, r.clients, [&](std::uint32_t number) { connector.end(number); },
		[&] {
			const Report report = connector.next();
			r.disconnect_ns.push_back(static_cast<double>(report.ended - report.began));
		});
}

double quantile(std::vector<double> values, double fraction) {
	check(!values.empty(), "a quantile needs at least one value");
	const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(values.size())));
	const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(rank, 1, values.size()) - 1);
	std::ranges::nth_element(values, at);
	return *at;
}

}  // namespace verbena::connect
