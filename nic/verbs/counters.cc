// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/counters.h"

#include <algorithm>

namespace verbena::verbs {
namespace {

using Values = CounterValues;

// For what the port of a RoCE device that is a program cannot have: a cable, virtual lanes, a
// switch, partitions that are enforced.
constexpr std::uint64_t none(const Values&) { return 0; }

constexpr std::uint64_t octets_a_unit = 4;  // in port_xmit_data and port_rcv_data
constexpr Nanoseconds tick = 1'000;  // the unit of port_xmit_wait

template <std::uint64_t transport::Counters::* count> std::uint64_t of(const Values& v) { return v.transport.*count; }

using T = transport::Counters;

constexpr Counter counters[] = {
	{"counters/VL15_dropped", none},
	{"counters/excessive_buffer_overrun_errors", [](const Values& v) { return v.port.overruns; }},
	{"counters/link_downed", [](const Values& v) { return v.link_downs; }},
	{"counters/link_error_recovery", none},
	{"counters/local_link_integrity_errors", none},
	{"counters/multicast_rcv_packets", [](const Values& v) { return v.port.multicast_received; }},
	{"counters/multicast_xmit_packets", [](const Values& v) { return v.port.multicast_sent; }},
	{"counters/port_rcv_constraint_errors", none},
	{"counters/port_rcv_data", [](const Values& v) { return v.port.received.octets / octets_a_unit; }},
	{"counters/port_rcv_errors", [](const Values& v) { return v.port.receive_errors; }},
	{"counters/port_rcv_packets", [](const Values& v) { return v.port.received.packets; }},
	{"counters/port_rcv_remote_physical_errors", none},
	{"counters/port_rcv_switch_relay_errors", none},
	{"counters/port_xmit_constraint_errors", none},
	{"counters/port_xmit_data", [](const Values& v) { return v.port.sent.octets / octets_a_unit; }},
	{"counters/port_xmit_discards", [](const Values& v) { return v.port.discarded; }},
	{"counters/port_xmit_packets", [](const Values& v) { return v.port.sent.packets; }},
	{"counters/port_xmit_wait", [](const Values& v) { return std::uint64_t{v.port.waited / tick}; }},
	{"counters/symbol_error", none},
	{"counters/unicast_rcv_packets",
		[](const Values& v) { return v.port.received.packets - v.port.multicast_received; }},
	{"counters/unicast_xmit_packets", [](const Values& v) { return v.port.sent.packets - v.port.multicast_sent; }},
	{"hw_counters/cm_mismatched", [](const Values& v) { return v.connections.mismatched; }},
	{"hw_counters/completer_retry_err", of<&T::retransmissions>},
	{"hw_counters/duplicate_request", of<&T::duplicates>},
	{"hw_counters/fatal_naks_received", of<&T::fatal_naks_received>},
	{"hw_counters/naks_refuted", of<&T::naks_refuted>},
	{"hw_counters/out_of_seq_request", of<&T::out_of_sequence>},
	{"hw_counters/rcvd_rnr_err", of<&T::rnr_naks_received>},
	{"hw_counters/rcvd_seq_err", of<&T::sequence_naks_received>},
	{"hw_counters/retry_exceeded_err", of<&T::retries_exceeded>},
	{"hw_counters/retry_rnr_exceeded_err", of<&T::rnr_retries_exceeded>},
	{"hw_counters/send_rnr_err", of<&T::rnr_naks_sent>},
	{"hw_counters/stray_answers", of<&T::stray_answers>},
};

}  // namespace

std::span<const Counter> all_counters() { return counters; }

const Counter* find_counter(std::string_view name) {
	const auto* const found = std::ranges::find(counters, name, &Counter::name);
	return found == std::end(counters) ? nullptr : found;
}

}  // namespace verbena::verbs
