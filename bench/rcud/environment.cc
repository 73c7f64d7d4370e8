// SPDX-License-Identifier: Apache-2.0
#include "bench/rcud/environment.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/environment.h"
#include "bench/rcud/verification.h"

namespace verbena::rcud {
namespace {

std::string settings_of(const Settings& settings) {
	return fmt::format(
		"iters {}, warmup {}, min-time {} s, post-list {}, signal-every {}, inline {}, recv-depth {}, "
		"receiver-delay {} ns{}{}",
		settings.iters, settings.warmup, settings.min_time_s, settings.post_list, settings.signal_every,
		settings.inline_bytes, settings.receive_depth, settings.receiver_delay_ns,
		settings.passive_target ? ", passive target" : "", settings.verify ? ", verify" : "");
}

}  // namespace

bench::Environment environment_of(const lib::OpenDevice& device, const PeerInfo& peer, const Settings& settings,
	const Circumstances& circumstances, std::span<const bench::Json> rows) {
	bench::Environment environment{
		{"device", device.choice.device},
		{"kind", device.choice.software ? "software" : "hardware"},
		{"gid", lib::format_gid(device.choice.gid)},
		{"gid_index", std::to_string(device.choice.gid_index)},
		{"mtu", std::to_string(std::min(device.mtu_bytes(), peer.mtu))},
		{"link", lib::link_text(device) + bench::between(circumstances.peer_host)},
		{"connect", settings.connect == Connect::rdmacm ? "rdmacm" : "exchange"},
		{"peer_device", peer.device},
		{"peer_kind", peer.software ? "software" : "hardware"},
		{"settings", settings_of(settings)},
		{"core_to_core_ns", bench::core_to_core_ns(rows, {"rtt_before_ns", "rtt_after_ns"})},
	};
	if (const std::string cost = verification_cost(rows); !cost.empty()) environment.emplace_back("verification", cost);
	const auto& cores = circumstances.cores;
	const auto machine =
		bench::machine(circumstances.command_line, cores ? fmt::format("{} and {}", cores->first, cores->second) : "");
	environment.insert(environment.end(), machine.begin(), machine.end());
	return environment;
}

}  // namespace verbena::rcud
