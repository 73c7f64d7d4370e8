// SPDX-License-Identifier: Apache-2.0
#include "lib/metrics/families.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>

#include "lib/verbs/port_counters.h"

namespace verbena::metrics {
namespace {

constexpr double first_bound_s = 1e-6;

Family one(std::string name, std::string help, Kind kind, double value, Labels labels) {
	Family family{.name = std::move(name), .help = std::move(help), .kind = kind, .samples = {}};
	family.samples.push_back({.labels = std::move(labels), .value = value, .distribution = {}});
	return family;
}

constexpr PortCounter known_port_counters[] = {
	{"port_xmit_data", "port_data_transmitted_bytes_total", "Bytes that the port has sent", 4},
	{"port_rcv_data", "port_data_received_bytes_total", "Bytes that the port has received", 4},
	{"port_xmit_packets", "port_packets_transmitted_total", "Packets that the port has sent"},
	{"port_rcv_packets", "port_packets_received_total", "Packets that the port has received"},
	{"port_rcv_errors", "port_errors_received_total", "Packets with errors that the port has received"},
	{"port_xmit_discards", "port_discards_transmitted_total", "Packets that the port could not send"},
};

}  // namespace

void add(Families& to, const Families& from) {
	for (const Family& each : from) {
		const auto same = std::ranges::find(to, each.name, &Family::name);
		if (same == to.end()) {
			to.push_back(each);
			continue;
		}
		for (const Sample& sample : each.samples) {
			const auto place = std::ranges::find(same->samples, sample.labels, &Sample::labels);
			if (place == same->samples.end()) same->samples.push_back(sample);
			else place->value += sample.value;
		}
	}
}

Family counter(std::string name, std::string help, double value, Labels labels) {
	return one(std::move(name), std::move(help), Kind::counter, value, std::move(labels));
}

Family gauge(std::string name, std::string help, double value, Labels labels) {
	return one(std::move(name), std::move(help), Kind::gauge, value, std::move(labels));
}

Distribution distribution_of(const DurationBuckets& durations) {
	Distribution of{
		.counts = {durations.counts.begin(), durations.counts.end()}, .sum = static_cast<double>(durations.sum) / 1e9};
	double bound = first_bound_s;
	for (std::size_t i = 0; i < duration_bounds; ++i, bound *= 2) of.bounds.push_back(bound);
	return of;
}

Family histogram(std::string name, std::string help, const DurationBuckets& durations, Labels labels) {
	Family family = one(std::move(name), std::move(help), Kind::histogram, 0, std::move(labels));
	family.samples.front().distribution = distribution_of(durations);
	return family;
}

void Buckets::record(Nanoseconds duration) {
	counts_[duration_bucket(duration)].fetch_add(1, std::memory_order_relaxed);
	sum_.fetch_add(duration, std::memory_order_relaxed);
}

Family Buckets::family(std::string name, std::string help, Labels labels) const {
	DurationBuckets now;
	for (std::size_t i = 0; i < counts_.size(); ++i) now.counts[i] = counts_[i].load(std::memory_order_relaxed);
	now.sum = sum_.load(std::memory_order_relaxed);
	return histogram(std::move(name), std::move(help), now, std::move(labels));
}

void WordCounter::count(std::string_view word) {
	const std::lock_guard guard(lock_);
	auto found = std::ranges::find(counts_, word, &std::pair<std::string, std::uint64_t>::first);
	if (found == counts_.end()) {
		if (counts_.size() + 1 >= words_max) word = "other";
		found = std::ranges::find(counts_, word, &std::pair<std::string, std::uint64_t>::first);
		if (found == counts_.end()) found = counts_.emplace(counts_.end(), word, 0);
	}
	++found->second;
}

Family WordCounter::family(std::string name, std::string help, const std::string& label) const {
	Family family{.name = std::move(name), .help = std::move(help), .kind = Kind::counter, .samples = {}};
	const std::lock_guard guard(lock_);
	for (const auto& [word, count] : counts_)
		family.samples.push_back({.labels = {{label, word}}, .value = static_cast<double>(count), .distribution = {}});
	return family;
}

Families process_families() {
	Families families;
	rusage use{};
	getrusage(RUSAGE_SELF, &use);
	const auto seconds = [](const timeval& time) {
		return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
	};
	families.push_back(counter(
		"process_cpu_seconds_total", "User and system CPU time", seconds(use.ru_utime) + seconds(use.ru_stime)));
	std::ifstream status("/proc/self/status");
	for (std::string line; std::getline(status, line);) {
		const auto number = [&] { return std::strtod(line.c_str() + line.find(':') + 1, nullptr); };
		if (line.starts_with("VmRSS:"))
			families.push_back(gauge("process_resident_memory_bytes", "Resident memory", number() * 1024));
		if (line.starts_with("Threads:")) families.push_back(gauge("process_threads", "Threads", number()));
	}
	double descriptors = 0;
	std::error_code gone;
	for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd", gone)) ++descriptors;
	families.push_back(gauge("process_open_fds", "Open descriptors", descriptors));
	return families;
}

std::span<const PortCounter> port_counters() { return known_port_counters; }

Families port_families(const std::string& folder, const std::string& device, std::uint8_t port) {
	Families families;
	const Labels labels{{"device", device}, {"port", std::to_string(port)}};
	for (const PortCounter& each : port_counters())
		if (const auto value = lib::read_count(folder, "ports/" + std::to_string(port) + "/counters/" + each.file))
			families.push_back(counter(
				std::string("verbena_") + each.name, each.help, static_cast<double>(*value * each.unit), labels));
	const auto hardware = lib::hardware_counters(folder, port);
	for (const lib::PortCounter& each : hardware)
		families.push_back(counter("verbena_" + each.name + "_total", "The device's hw_counters/" + each.name,
			static_cast<double>(each.value), labels));
	const lib::Retries retries = lib::retries_of(hardware);
	const auto add = [&](const char* name, const char* help, const std::optional<std::uint64_t>& value,
						 const char* label = nullptr, const char* word = nullptr) {
		if (!value) return;
		if (families.empty() || families.back().name != name)
			families.push_back({.name = name, .help = help, .kind = Kind::counter, .samples = {}});
		Labels all = labels;
		if (label != nullptr) all.emplace_back(label, word);
		families.back().samples.push_back(
			{.labels = std::move(all), .value = static_cast<double>(*value), .distribution = {}});
	};
	constexpr const char *naks = "verbena_rnr_naks_total", *naks_help = "RNR NAKs: a request found no receive buffer";
	add(naks, naks_help, retries.rnr_naks_received, "direction", "received");
	add(naks, naks_help, retries.rnr_naks_sent, "direction", "sent");
	add("verbena_retransmissions_total", "How often a connection began to send again", retries.retransmissions);
	constexpr const char *ended = "verbena_retries_exceeded_total",
						 *ended_help = "Connections that ended because retries ran out";
	add(ended, ended_help, retries.retries_exceeded, "cause", "transport");
	add(ended, ended_help, retries.rnr_retries_exceeded, "cause", "rnr");
	return families;
}

}  // namespace verbena::metrics
