// SPDX-License-Identifier: Apache-2.0
#include "bench/kv/environment.h"

#include <fmt/format.h>

#include "base/statistics.h"
#include "bench/environment.h"
#include "bench/kv/rows.h"

namespace verbena::kvbench {
namespace {

// Everything that changes what is measured, besides the cells.
std::string settings_of(const Cells& cells, const SessionOptions& options) {
	const Cell& common = cells.common;
	return fmt::format(
		"transport {}, rx-depth {}, tx-depth {}, eager-max {}, memory {}, one-sided {}, warmup {}, iters {}, "
		"seconds-max {}, poll {} us, clients {}, stalled {}",
		name_of(common.transport), common.rx_depth, common.tx_depth, common.eager_max, options.settings.memory,
		options.settings.one_sided, common.warmup, common.iters, common.seconds_max, options.spin / 1000,
		common.clients, cells.stalled);
}

// The part of a copy's rate that each row with large values reaches: "GET auto 1 MiB window 16: 0.7
// of 19.3 GiB/s".
std::string against_one_copy(std::span<const bench::Json> rows) {
	std::string text;
	for (const bench::Json& row : rows) {
		std::vector<double> copied;
		for (const bench::Json& repetition : row["repetitions"])
			if (const auto rate = bench::number_of(repetition, "bytes_copied_per_second"))
				copied.push_back(rate->value);
		const auto reached = bench::number_of(row, "gibibytes_per_second");
		if (copied.empty() || !reached) continue;
		const double limit = median(copied) / (1u << 30);
		text += fmt::format("{}{}: {:.2f} of {:.1f} GiB/s", text.empty() ? "" : ", ", experiment().title(row),
			reached->value / limit, limit);
	}
	return text;
}

}  // namespace

bench::Environment environment_of(
	const Cells& cells, Sessions& sessions, std::span<const bench::Json> rows, const std::string& command_line) {
	const Served& served = sessions.served();
	const bool tcp = cells.common.transport == Transport::tcp;
	bench::Environment environment;
	if (!tcp)  // which has no device
		environment = {{"device", served.device}, {"kind", served.software ? "software" : "hardware"},
			{"gid", served.gid}, {"mtu", std::to_string(served.mtu)}};
	const bench::Environment common{
		{"link", std::string(tcp ? "TCP" : served.link) + bench::between("")},
		{"transport", std::string(name_of(cells.common.transport))},
		{"settings", settings_of(cells, sessions.common())},
		{"server_registrations", std::to_string(sessions.server_registrations())},
		{"core_to_core_ns", bench::core_to_core_ns(rows, {"core_to_core_ns"})},
	};
	environment.insert(environment.end(), common.begin(), common.end());
	if (const std::string ratios = against_one_copy(rows); !ratios.empty())
		environment.emplace_back("one_copy", ratios);
	const auto machine = bench::machine(command_line);
	environment.insert(environment.end(), machine.begin(), machine.end());
	return environment;
}

}  // namespace verbena::kvbench
