#include "tools/nic_metrics.h"

#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>
#include <string_view>

#include "nic/status/door.h"

namespace verbena::tools {
namespace {

struct Name {
	std::string_view file;  // below ports/1
	const char* metric;
	const char* help;
	std::uint64_t unit = 1;
};

constexpr std::uint64_t bytes_a_word = 4;  // port_xmit_data and port_rcv_data count words
constexpr Name names[] = {
	{"counters/port_xmit_data", "node_infiniband_port_data_transmitted_bytes_total", "Bytes sent", bytes_a_word},
	{"counters/port_rcv_data", "node_infiniband_port_data_received_bytes_total", "Bytes received", bytes_a_word},
	{"counters/port_xmit_packets", "node_infiniband_port_packets_transmitted_total", "Packets sent"},
	{"counters/port_rcv_packets", "node_infiniband_port_packets_received_total", "Packets received"},
	{"counters/unicast_xmit_packets", "node_infiniband_unicast_packets_transmitted_total", "Unicast packets sent"},
	{"counters/unicast_rcv_packets", "node_infiniband_unicast_packets_received_total", "Unicast packets received"},
	{"counters/multicast_xmit_packets", "node_infiniband_multicast_packets_transmitted_total",
		"Multicast packets sent"},
	{"counters/multicast_rcv_packets", "node_infiniband_multicast_packets_received_total",
		"Multicast packets received"},
	{"counters/port_xmit_discards", "node_infiniband_port_discards_transmitted_total",
		"Packets that could not be sent"},
	{"counters/port_rcv_errors", "node_infiniband_port_errors_received_total", "Packets that are no valid RoCEv2"},
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
	// The collector has no names for these.
	{"hw_counters/send_rnr_err", "verbena_rnr_naks_sent_total", "RNR NAKs sent: no receive was posted"},
	{"hw_counters/completer_retry_err", "verbena_retransmissions_total", "How often a requester sent again"},
	{"hw_counters/retry_exceeded_err", "verbena_retries_exceeded_total", "Connections that ended without an answer"},
	{"hw_counters/retry_rnr_exceeded_err", "verbena_rnr_retries_exceeded_total",
		"Connections that ended because no receive was posted"},
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
	for (const Name& name : names) {
		metrics::Family& family = families.emplace_back(
			metrics::Family{.name = name.metric, .help = name.help, .kind = metrics::Kind::counter, .samples = {}});
		for (const status::Process& process : processes)
			family.samples.push_back({.labels = labels_of(process),
				.value = static_cast<double>(process.counter(name.file) * name.unit),
				.distribution = {}});
	}
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
