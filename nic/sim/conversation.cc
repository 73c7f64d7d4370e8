// SPDX-License-Identifier: Apache-2.0
#include "nic/sim/conversation.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "nic/sim/forger.h"

namespace verbena::sim {

Outcome converse(const ConversationOptions& options) {
	FabricOptions fabric_options{
		.seed = options.seed, .lossless = options.lossless, .faults = options.faults, .batch = options.batch};
	// Each forged NAK is an event, also during the pause after a forged RNR NAK, of up to 655 ms.
	if (options.forge_distance) fabric_options.events_max *= 10;
	Fabric fabric(fabric_options);
	Random random(options.seed + 0x5eed);
	Host& a = fabric.add_host();
	Host& b = fabric.add_host();

	std::vector<std::unique_ptr<Endpoint>> endpoints;
	std::vector<std::unique_ptr<Traffic>> traffic;
	for (int i = 0; i < options.connections; ++i) {
		const EndpointOptions ends{.send_entries = options.send_entries, .receive_entries = options.receive_entries};
		Endpoint& one = *endpoints.emplace_back(std::make_unique<Endpoint>(a, ends));
		Endpoint& other = *endpoints.emplace_back(std::make_unique<Endpoint>(b, ends));
		connect(one, other, options.connection);
		traffic.push_back(std::make_unique<Traffic>(one, other, options.traffic, random.below(1 << 30)));
		if (options.both_ways)
			traffic.push_back(std::make_unique<Traffic>(other, one, options.traffic, random.below(1 << 30)));
	}
	std::vector<std::unique_ptr<Forger>> forgers;
	for (std::size_t i = 0; options.forge_distance && i < endpoints.size(); ++i)
		forgers.push_back(
			std::make_unique<Forger>(*endpoints[i], *endpoints[i ^ 1], options.forge_distance, random.below(1 << 30)));
	const Nanoseconds began = fabric.now();
	fabric.each_step = [&] {
		for (auto& one : traffic) one->step();
	};
	const auto all_done = [&] { return std::ranges::all_of(traffic, [](const auto& one) { return one->done(); }); };
	const auto any_broken = [&] { return std::ranges::any_of(traffic, [](const auto& one) { return one->broken(); }); };
	const Ended ended = fabric.run_until([&] { return all_done() || any_broken(); });

	Outcome outcome;
	for (auto& forger : forgers) {
		forger->stop();
		outcome.forged += forger->forged();
	}
	outcome.took = fabric.now() - began;
	if (!any_broken()) {
		if (ended != Ended::reached) {
			outcome.report += ended == Ended::idle ? "the run stalls: no event is left\n"
												   : "the run exceeds its bound of events or time\n";
			for (auto& one : traffic) outcome.report += one->progress() + "\n";
			outcome.report += fabric.describe();
		} else {
			// Late duplicates and pauses may still be pending; they must change nothing.
			if (!fabric.settle()) outcome.report += "events continue after the last completion until the run's bound\n";
			for (auto& one : traffic) one->check_end();
			outcome.report += fabric.describe();
		}
	}
	for (auto& one : traffic)
		for (const std::string& problem : one->problems()) outcome.report += problem + "\n";
	outcome.good = outcome.report.empty();
	outcome.statistics = fabric.statistics;
	outcome.counters = a.counters();
	return outcome;
}

ConversationOptions drawn(std::uint64_t seed, const Faults& most, bool lossless, double forged_max) {
	Random random(seed);
	ConversationOptions o;
	o.seed = seed;
	o.lossless = lossless;
	const auto up_to = [&](double probability) { return probability * static_cast<double>(random.below(5)) / 4; };
	o.faults = {.drop = up_to(most.drop),
		.duplicate = up_to(most.duplicate),
		.reorder = up_to(most.reorder),
		.corrupt = up_to(most.corrupt),
		.delay = random.between(200, 20'000),
		.jitter = random.below(2) ? random.below(20'000) : 0};
	o.connection = {.path_mtu = static_cast<std::uint8_t>(random.between(1, 5)),
		.timeout = static_cast<std::uint8_t>(random.between(7, 10)),
		.min_rnr_timer = static_cast<std::uint8_t>(random.between(1, 6)),
		.rd_atomic = static_cast<std::uint8_t>(random.between(1, 16)),
		.psn_a = static_cast<std::uint32_t>(random.below(2) ? 0xffffff - random.below(200) : random.below(1 << 24)),
		.psn_b = static_cast<std::uint32_t>(random.below(1 << 24))};
	o.traffic = {.operations = static_cast<std::uint32_t>(random.between(20, 80)),
		.size_max = std::uint32_t{64} << random.below(11),
		.sends = static_cast<std::uint32_t>(random.between(1, 4)),
		.writes = static_cast<std::uint32_t>(random.below(4)),
		.reads = static_cast<std::uint32_t>(random.below(4)),
		.atomics = static_cast<std::uint32_t>(random.below(4)),
		.unsignaled = static_cast<double>(random.below(4)) * 0.25,
		.late_receive = random.below(3) == 0 ? 0.2 : 0};
	o.connections = static_cast<int>(random.between(1, 3));
	o.both_ways = random.below(4) != 0;
	o.batch = random.below(2) ? random.below(10'000) : 0;
	o.send_entries = std::uint32_t{2} << random.below(5);
	o.receive_entries = std::uint32_t{1} << random.below(6);
	// From a hundredth of the highest rate up to all of it.
	if (forged_max > 0 && !lossless)
		o.forge_distance = static_cast<Nanoseconds>(1e6 / forged_max) * random.between(1, 100);
	return o;
}

}  // namespace verbena::sim
