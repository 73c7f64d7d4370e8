// SPDX-License-Identifier: Apache-2.0
#include "lib/verbs/port_counters.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>

// Every libibverbs exports it (IBVERBS_1.0), but no installed header declares it.
extern "C" int ibv_read_sysfs_file(const char* dir, const char* file, char* buf, std::size_t size);

namespace verbena::lib {
namespace {

// Counters to ask for if the device has no folder to list.
constexpr const char* soft_roce_names[] = {"completer_retry_err", "duplicate_request", "out_of_seq_request",
	"rcvd_rnr_err", "rcvd_seq_err", "retry_exceeded_err", "retry_rnr_exceeded_err", "send_rnr_err"};

// One meaning and the names that drivers give it: Soft-RoCE, mlx5, mlx4, bnxt_re. If one driver has
// several of the names, their sum is the value.
struct Synonyms {
	std::optional<std::uint64_t> Retries::* meaning;
	std::vector<std::string_view> names;
};
const Synonyms synonyms[] = {
	{&Retries::rnr_naks_received, {"rcvd_rnr_err", "rnr_nak_retry_err", "sq_num_rnr", "rnr_naks_rcvd"}},
	{&Retries::rnr_naks_sent, {"send_rnr_err", "out_of_buffer", "rq_num_rnr"}},
	{&Retries::retransmissions,
		{"completer_retry_err", "local_ack_timeout_err", "packet_seq_err", "implied_nak_seq_err", "sq_num_to",
			"sq_num_oos", "to_retransmits", "seq_err_naks_rcvd"}},
	{&Retries::retries_exceeded,
		{"retry_exceeded_err", "req_transport_retries_exceeded", "sq_num_tree", "max_retry_exceeded"}},
	{&Retries::rnr_retries_exceeded, {"retry_rnr_exceeded_err", "req_rnr_retries_exceeded", "sq_num_rree"}},
};

}  // namespace

std::optional<std::uint64_t> read_count(const std::string& folder, const std::string& file) {
	char text[64];
	const int length = ibv_read_sysfs_file(folder.c_str(), file.c_str(), text, sizeof text);
	if (length <= 0) return {};
	std::uint64_t value = 0;
	const auto [end, error] = std::from_chars(text, text + length, value);
	return error == std::errc() && end == text + length ? std::optional(value) : std::nullopt;
}

std::vector<PortCounter> hardware_counters(const std::string& folder, std::uint8_t port) {
	const std::string counters = "ports/" + std::to_string(port) + "/hw_counters/";
	std::vector<std::string> names;
	std::error_code none;
	for (const auto& each : std::filesystem::directory_iterator(std::filesystem::path(folder) / counters, none))
		names.push_back(each.path().filename());
	if (none) names.assign(std::begin(soft_roce_names), std::end(soft_roce_names));
	std::ranges::sort(names);
	std::vector<PortCounter> found;
	for (const std::string& name : names)
		// "lifespan" is not a counter but the time for which the kernel caches the readings.
		if (const auto value = read_count(folder, counters + name); value && name != "lifespan")
			found.push_back({name, *value});
	return found;
}

Retries retries_of(std::span<const PortCounter> counters) {
	Retries retries;
	for (const Synonyms& each : synonyms)
		for (const PortCounter& counter : counters)
			if (std::ranges::find(each.names, counter.name) != each.names.end())
				retries.*each.meaning = (retries.*each.meaning).value_or(0) + counter.value;
	return retries;
}

}  // namespace verbena::lib
