// SPDX-License-Identifier: Apache-2.0
#include "tools/nic_metrics.h"

#include <unistd.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "nic/status/door.h"

namespace verbena::tools {
namespace {

struct Name {
	const char* file;  // below ports/1
	const char *metric, *help;
	// A label of its own, for the families of several counters; they stand one after the other.
	const char *label = nullptr, *value = nullptr;
};

constexpr const char *rnr_naks = "verbena_rnr_naks_total", *rnr_naks_help = "RNR NAKs: a request found no receive",
					 *ended = "verbena_retries_exceeded_total",
					 *ended_help = "Connections that ended because retries ran out";

// Counters besides those of metrics::port_counters(). The collector of node_exporter has no names
// for the last ones, which have those of the servers' metrics (lib/metrics).
constexpr Name names[] = {
	{"counters/unicast_xmit_packets", "node_infiniband_unicast_packets_transmitted_total", "Unicast packets sent"},
	{"counters/unicast_rcv_packets", "node_infiniband_unicast_packets_received_total", "Unicast packets received"},
	{"counters/multicast_xmit_packets", "node_infiniband_multicast_packets_transmitted_total",
		"Multicast packets sent"},
	{"counters/multicast_rcv_packets", "node_infiniband_multicast_packets_received_total",
		"Multicast packets received"},
	{"counters/port_xmit_wait", "node_infiniband_port_transmit_wait_total",
		"Microseconds in which requests waited for room"},
	{"counters/link_downed", "node_infiniband_link_downed_total", "How often a port left the state ACTIVE"},
	{"counters/excessive_buffer_overrun_errors", "node_infiniband_excessive_buffer_overrun_errors_total",
		"Datagrams for which a socket had no room"},
	{"hw_counters/duplicate_request", "node_infiniband_duplicate_requests_packets_total",
		"Requests that were received before"},
	{"hw_counters/out_of_seq_request", "node_infiniband_out_of_sequence_packets_received_total",
		"Requests that came out of sequence"},
	{"hw_counters/rcvd_seq_err", "node_infiniband_packet_sequence_errors_total", "Sequence error NAKs received"},
	{"hw_counters/rcvd_rnr_err", "node_infiniband_rnr_nak_retry_packets_received_total", "RNR NAKs received"},
	{"hw_counters/rcvd_rnr_err", rnr_naks, rnr_naks_help, "direction", "received"},
	{"hw_counters/send_rnr_err", rnr_naks, rnr_naks_help, "direction", "sent"},
	{"hw_counters/completer_retry_err", "verbena_retransmissions_total", "How often a requester sent again"},
	{"hw_counters/retry_exceeded_err", ended, ended_help, "cause", "transport"},
	{"hw_counters/retry_rnr_exceeded_err", ended, ended_help, "cause", "rnr"},
	{"hw_counters/fatal_naks_received", "verbena_fatal_naks_received_total", "NAKs that would end a connection"},
	{"hw_counters/naks_refuted", "verbena_naks_refuted_total", "Those of them that were forged"},
	{"hw_counters/stray_answers", "verbena_stray_answers_total", "Answers for packets that are not in flight"},
	{"hw_counters/cm_mismatched", "verbena_cm_mismatched_total", "Connection messages that are not the peer's"},
};

metrics::Labels labels_of(const status::Process& process) {
	return {{"device", "verbena"}, {"port", "1"}, {"pid", std::to_string(process.pid)}, {"program", process.program}};
}

// The parent of a process; 0 if it has ended.
pid_t parent_of(pid_t pid) {
	char path[40], text[512];
	std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(pid));
	std::FILE* const file = std::fopen(path, "re");
	if (!file) return 0;
	const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
	std::fclose(file);
	text[length] = '\0';
	// The name, in parentheses, may contain any character.
	const std::size_t end = std::string_view(text, length).rfind(')');
	int parent = 0;
	if (end == std::string_view::npos || std::sscanf(text + end + 1, " %*c %d", &parent) != 1) return 0;
	return parent;
}

bool is_descendant(pid_t pid) {
	const pid_t self = getpid();
	while (pid > 1 && pid != self) pid = parent_of(pid);
	return pid == self;
}

metrics::Family queue_pair_family(const char* name, const char* help, std::span<const status::Process> processes,
	bool (*counts)(const status::QueuePair&)) {
	metrics::Family family{.name = name, .help = help, .kind = metrics::Kind::gauge, .samples = {}};
	for (const status::Process& process : processes) {
		double count = 0;
		for (const status::QueuePair& qp : process.queue_pairs) count += counts(qp);
		family.samples.push_back({.labels = labels_of(process), .value = count, .distribution = {}});
	}
	return family;
}

}  // namespace

std::vector<status::Process> own_processes() {
	std::vector<status::Process> all = status::ask_all();
	std::erase_if(all, [](const status::Process& each) { return !is_descendant(static_cast<pid_t>(each.pid)); });
	return all;
}

metrics::Families nic_families(std::span<const status::Process> processes) {
	metrics::Families families;
	const auto add = [&](const std::string& name, const char* help, const std::string& file, std::uint64_t unit,
						 const Name* labelled) {
		if (families.empty() || families.back().name != name)
			families.push_back({.name = name, .help = help, .kind = metrics::Kind::counter, .samples = {}});
		for (const status::Process& process : processes) {
			metrics::Labels labels = labels_of(process);
			if (labelled) labels.emplace_back(labelled->label, labelled->value);
			families.back().samples.push_back({.labels = std::move(labels),
				.value = static_cast<double>(process.counter(file) * unit),
				.distribution = {}});
		}
	};
	for (const metrics::PortCounter& each : metrics::port_counters())
		add(std::string("node_infiniband_") + each.name, each.help, std::string("counters/") + each.file, each.unit,
			nullptr);
	for (const Name& each : names) add(each.metric, each.help, each.file, 1, each.label ? &each : nullptr);
	families.push_back(queue_pair_family(
		"verbena_queue_pairs", "Queue pairs", processes, [](const status::QueuePair&) { return true; }));
	families.push_back(queue_pair_family("verbena_queue_pairs_in_error", "Queue pairs in the error state", processes,
		[](const status::QueuePair& qp) { return qp.state == "ERR"; }));
	families.push_back(queue_pair_family("verbena_queue_pairs_waiting_for_receive",
		"Queue pairs whose peer has no receive posted, or cannot receive", processes,
		[](const status::QueuePair& qp) { return qp.waits == "receive"; }));
	families.push_back(
		queue_pair_family("verbena_queue_pairs_waiting_for_room", "Queue pairs for whose packets the link has no room",
			processes, [](const status::QueuePair& qp) { return qp.waits == "room"; }));
	return families;
}

}  // namespace verbena::tools
