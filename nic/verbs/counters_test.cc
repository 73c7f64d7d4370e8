// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/counters.h"

#include <gtest/gtest.h>
#include <set>
#include <string>

namespace verbena::verbs {
namespace {

std::uint64_t value(std::string_view name, const CounterValues& values) {
	const Counter* const counter = find_counter(name);
	if (counter) return counter->of(values);
	ADD_FAILURE() << "no counter " << name;
	return 0;
}

constexpr CounterValues example{
	.port = {.sent = {.packets = 10, .octets = 1'000},
		.received = {.packets = 20, .octets = 2'000},
		.multicast_sent = 3,
		.multicast_received = 4,
		.discarded = 5,
		.receive_errors = 6,
		.overruns = 2,
		.waited = 7'999},
	.transport = {.rnr_naks_received = 8},
	.connections = {.unexpected = 11, .mismatched = 12},
	.link_downs = 9,
};

TEST(Counters, DataIsInUnitsOfFourOctets) {
	EXPECT_EQ(value("counters/port_xmit_data", example), 250u);
	EXPECT_EQ(value("counters/port_rcv_data", example), 500u);
}

TEST(Counters, UnicastAndMulticastPacketsAddUpToAllPackets) {
	EXPECT_EQ(value("counters/port_xmit_packets", example), 10u);
	EXPECT_EQ(value("counters/multicast_xmit_packets", example), 3u);
	EXPECT_EQ(value("counters/unicast_xmit_packets", example), 7u);
	EXPECT_EQ(value("counters/port_rcv_packets", example), 20u);
	EXPECT_EQ(value("counters/multicast_rcv_packets", example), 4u);
	EXPECT_EQ(value("counters/unicast_rcv_packets", example), 16u);
}

TEST(Counters, ErrorsAndWaitsHaveTheirFiles) {
	EXPECT_EQ(value("counters/port_xmit_discards", example), 5u);
	EXPECT_EQ(value("counters/port_rcv_errors", example), 6u);
	EXPECT_EQ(value("counters/excessive_buffer_overrun_errors", example), 2u);
	EXPECT_EQ(value("counters/port_xmit_wait", example), 7u) << "whole microseconds";
	EXPECT_EQ(value("counters/link_downed", example), 9u);
	EXPECT_EQ(value("hw_counters/rcvd_rnr_err", example), 8u);
	EXPECT_EQ(value("hw_counters/cm_mismatched", example), 12u);
}

TEST(Counters, EachHasOneName) {
	std::set<std::string_view> names;
	for (const Counter& counter : all_counters()) names.insert(counter.name);
	EXPECT_EQ(names.size(), all_counters().size());
	EXPECT_EQ(find_counter("counters/port_xmit"), nullptr);
	EXPECT_EQ(find_counter("port_xmit_data"), nullptr);
}

}  // namespace
}  // namespace verbena::verbs
