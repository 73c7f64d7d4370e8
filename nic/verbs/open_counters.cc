// SPDX-License-Identifier: Apache-2.0
#include "nic/verbs/open_counters.h"

#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <new>
#include <unistd.h>
#include <vector>

#include "base/cancellation.h"
#include "nic/presence/number_file.h"
#include "nic/verbs/process.h"

namespace verbena::verbs {
namespace {

// Files that the program has closed are looked for once in this many calls of show_counters().
constexpr std::uint32_t shows_between_looks = 64;

struct OpenCounter {
	presence::NumberFile file;
	int fd;  // the program's
	const Counter* counter;
	const SoftDevice* device;
};

struct OpenCounters {
	std::mutex mutex;
	std::vector<OpenCounter> open;
	std::uint32_t shows = 0;
};

// Never destroyed: the progress thread uses it until the process ends.
OpenCounters& opened() {
	static OpenCounters& instance = *new OpenCounters;
	return instance;
}

void drop_closed(std::vector<OpenCounter>& open) {
	const NotCancellable whole;
	std::erase_if(open, [](const OpenCounter& each) { return !each.file.is_at(each.fd); });
}

}  // namespace

int open_counter(std::string_view device_name, std::string_view name, int flags) {
	const SoftDevice* const device = find_device(device_name);
	const Counter* const counter = find_counter(name);
	if (!device || !counter) {
		errno = ENOENT;
		return -1;
	}
	auto file = presence::NumberFile::create(counter->of(counter_values(*device)));
	if (!file) {
		errno = file.error();
		return -1;
	}
	const int fd = file->open(flags);
	if (fd < 0) return -1;
	try {
		OpenCounters& all = opened();
		const std::lock_guard lock(all.mutex);
		drop_closed(all.open);
		all.open.push_back({std::move(*file), fd, counter, device});
	} catch (...) {
		close(fd);
		throw;
	}
	watch_counters();
	return fd;
}

bool counters_are_open() {
	OpenCounters& all = opened();
	const std::lock_guard lock(all.mutex);
	return !all.open.empty();
}

void show_counters(engine::Engine& engine) {
	OpenCounters& all = opened();
	const std::lock_guard lock(all.mutex);
	if (++all.shows % shows_between_looks == 0) drop_closed(all.open);
	if (all.open.empty()) return engine.watch_counters(false);
	CounterValues values{
		.port = engine.port_counts(), .transport = engine.counters(), .connections = engine.connection_counters()};
	for (OpenCounter& each : all.open) {
		values.link_downs = each.device->link_downs.load(std::memory_order_relaxed);
		each.file.show(each.counter->of(values));
	}
}

void forget_open_counters() {
	OpenCounters& all = opened();
	new (&all.mutex) std::mutex;  // a thread of the parent may hold the old one
	for (OpenCounter& each : all.open) each.file.abandon_after_fork();
	all.open.clear();
}

}  // namespace verbena::verbs
