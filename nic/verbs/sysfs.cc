// SPDX-License-Identifier: Apache-2.0
// The sysfs files of our devices, for ibv_read_sysfs_file: the counters of their ports.
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "base/log.h"
#include "nic/verbs/counters.h"
#include "nic/verbs/process.h"
#include "nic/verbs/provider.h"

namespace verbena::verbs {
namespace {

constexpr std::string_view port_folder = "ports/1/";

}  // namespace

int read_sysfs_file(const char* folder, const char* file, char* buffer, std::size_t size) {
	const std::string_view path = folder, name = file;
	const SoftDevice* const device = find_device(path.substr(path.rfind('/') + 1));
	const Counter* const counter =
		name.starts_with(port_folder) ? find_counter(name.substr(port_folder.size())) : nullptr;
	if (!device || !counter) {
		log::refuse(ENOENT, "ibv_read_sysfs_file: the device has no file %s", file);
		return -1;
	}
	const std::string text = std::to_string(counter->of(counter_values(*device)));
	if (text.size() >= size) {
		log::refuse(EOVERFLOW, "ibv_read_sysfs_file: %s needs more than %zu bytes", file, size);
		return -1;
	}
	std::memcpy(buffer, text.c_str(), text.size() + 1);
	return static_cast<int>(text.size());
}

}  // namespace verbena::verbs
