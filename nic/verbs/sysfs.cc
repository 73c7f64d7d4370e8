// The sysfs files of our devices, for ibv_read_sysfs_file: the counters that the kernel's Soft-RoCE
// and this NIC have in common, under Soft-RoCE's names. They count this process's traffic on all
// our devices together, from 0 when it first opens one.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {
namespace {

constexpr std::string_view counters_folder = "ports/1/hw_counters/";

struct CounterFile {
	std::string_view name;
	std::uint64_t transport::Counters::* count;
};

constexpr CounterFile counter_files[] = {
	{"duplicate_request", &transport::Counters::duplicates},
	{"out_of_seq_request", &transport::Counters::out_of_sequence},
	{"rcvd_rnr_err", &transport::Counters::rnr_naks_received},
	{"send_rnr_err", &transport::Counters::rnr_naks_sent},
	{"rcvd_seq_err", &transport::Counters::sequence_naks_received},
	{"completer_retry_err", &transport::Counters::retransmissions},
	{"retry_exceeded_err", &transport::Counters::retries_exceeded},
	{"retry_rnr_exceeded_err", &transport::Counters::rnr_retries_exceeded},
};

}  // namespace

int read_sysfs_file(const char* file, char* buffer, std::size_t size) {
	std::string_view name = file;
	const bool counter = name.starts_with(counters_folder);
	if (counter) name.remove_prefix(counters_folder.size());
	const auto* const found = std::ranges::find(counter_files, name, &CounterFile::name);
	if (!counter || found == std::end(counter_files)) {
		errno = ENOENT;
		return -1;
	}
	const std::string text = std::to_string(process_counters().*found->count);
	if (text.size() >= size) {
		errno = EOVERFLOW;
		return -1;
	}
	std::memcpy(buffer, text.c_str(), text.size() + 1);
	return static_cast<int>(text.size());
}

}  // namespace verbena::verbs
