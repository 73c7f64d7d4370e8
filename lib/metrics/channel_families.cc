// SPDX-License-Identifier: Apache-2.0
#include "lib/metrics/channel_families.h"

#include <set>

namespace verbena::metrics {
namespace {

double number(std::uint64_t value) { return static_cast<double>(value); }

Family with_labels(std::string name, std::string help, Kind kind, const std::string& label,
	std::initializer_list<std::pair<const char*, std::uint64_t>> values) {
	Family family{.name = std::move(name), .help = std::move(help), .kind = kind, .samples = {}};
	for (const auto& [word, value] : values)
		family.samples.push_back({.labels = {{label, word}}, .value = number(value), .distribution = {}});
	return family;
}

Families families_of(channel::RcTransport& transport) {
	const channel::RcCounters& c = transport.counters();
	const lib::OpenDevice& device = transport.device();
	const channel::VerbsObjects has = transport.objects();
	return {
		gauge("verbena_device_info", "The RDMA device that channels use", 1,
			{{"device", device.choice.device}, {"gid", lib::format_gid(device.choice.gid)},
				{"mtu", std::to_string(device.mtu_bytes())}}),
		with_labels("verbena_rdma_resources", "Objects of the verbs, as `rdma resource show` names them", Kind::gauge,
			"type",
			{{"qp", has.queue_pairs}, {"cq", has.completion_queues}, {"srq", has.shared_receive_queues},
				{"pd", has.domains}, {"mr", has.memory_regions}}),
		gauge("verbena_receive_units", "Buffers for receiving and sending that are registered",
			number(transport.units())),
		gauge("verbena_credits_free", "Posted receive buffers that no connection has a credit for",
			number(transport.credits_free())),
		gauge("verbena_receive_units_max", "The watermark: the most buffers that may be registered",
			number(transport.options().units_max)),
		gauge("verbena_registered_memory_bytes", "Memory for direct operations, free or not",
			number(transport.memory().registered())),
		gauge("verbena_registered_memory_max_bytes", "The watermark: the most memory for direct operations",
			number(transport.options().memory.max)),
		with_labels("verbena_channels_total", "Channels by what became of them", Kind::counter, "event",
			{{"opened", c.channels_opened}, {"lost", c.channels_lost}}),
		with_labels("verbena_frames_total", "SENDs by what they carry, and heartbeats", Kind::counter, "kind",
			{{"sent", c.frames_sent}, {"sent_inline", c.frames_inline}, {"received", c.frames_received},
				{"credit", c.credit_frames}, {"want", c.want_frames}, {"heartbeat", c.heartbeats}}),
		with_labels("verbena_messages_total", "Messages of channels", Kind::counter, "kind",
			{{"sent", c.messages_sent}, {"received", c.messages_received}, {"coalesced", c.messages_coalesced}}),
		counter("verbena_data_transmitted_bytes_total", "Bytes of frames that were sent", number(c.bytes_sent)),
		counter("verbena_data_received_bytes_total", "Bytes of frames that were received", number(c.bytes_received)),
		counter("verbena_receive_posts_total", "Lists of receives that were posted", number(c.receive_posts)),
	};
}

Families port_families_of(const channel::RcTransport& transport) {
	const lib::OpenDevice& device = transport.device();
	return port_families(device.context->device->ibdev_path, device.choice.device, device.choice.port);
}

}  // namespace

Families transport_families(channel::RcTransport& transport) {
	Families families = families_of(transport);
	add(families, port_families_of(transport));
	return families;
}

Families transport_families(std::span<const std::unique_ptr<channel::RcTransport>> transports) {
	Families families;
	for (const auto& each : transports) add(families, families_of(*each));
	std::set<std::pair<std::string, unsigned>> ports;
	for (const auto& each : transports)
		if (const auto& choice = each->device().choice; ports.emplace(choice.device, choice.port).second)
			add(families, port_families_of(*each));
	return families;
}

Families mux_families(const channel::MuxCounters& c, std::size_t carriers, std::size_t channels) {
	return {
		gauge("verbena_carriers", "Connections that carry logical channels", number(carriers)),
		gauge("verbena_logical_channels_open", "Logical channels that are open", number(channels)),
		with_labels("verbena_logical_channels_total", "Logical channels by what became of them", Kind::counter, "event",
			{{"opened", c.opened}, {"refused", c.refused}, {"closed", c.closed}, {"reset", c.reset}}),
		with_labels("verbena_logical_messages_total", "Messages of logical channels", Kind::counter, "kind",
			{{"sent", c.messages_sent}, {"received", c.messages_received}}),
		with_labels("verbena_logical_batches_total",
			"Carrier messages, each with frames of one or several logical channels", Kind::counter, "kind",
			{{"sent", c.batches_sent}, {"received", c.batches_received}}),
		counter("verbena_logical_credit_frames_total", "Frames that carry credits of logical channels",
			number(c.credit_frames)),
	};
}

Families acceptor_families(const channel::Acceptor& acceptor) {
	const channel::AcceptorCounters& c = acceptor.counters();
	return {
		gauge("verbena_handshakes_under_way", "Set-ups under way", number(acceptor.under_way())),
		with_labels("verbena_handshakes_total", "Set-ups by how they went", Kind::counter, "result",
			{{"accepted", c.accepted}, {"agreed", c.agreed}, {"resumed", c.resumed}, {"refused", c.refused},
				{"failed", c.failed}, {"evicted", c.evicted}}),
	};
}

}  // namespace verbena::metrics
