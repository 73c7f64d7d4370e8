// SPDX-License-Identifier: Apache-2.0
#include "nic/rules/watchpoint.h"

#include <dirent.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>

#include "nic/memory/guarded_copy.h"

namespace verbena::rules {
namespace {

// A page of facts, and one for 256 samples.
std::size_t ring_bytes() { return 2 * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

struct CloseFolder {
	void operator()(DIR* folder) const { closedir(folder); }
};

// The threads of the process without the calling one.
std::vector<pid_t> other_threads() {
	std::vector<pid_t> threads;
	const std::unique_ptr<DIR, CloseFolder> folder(opendir("/proc/self/task"));
	if (!folder) return threads;
	const auto self = static_cast<pid_t>(syscall(SYS_gettid));
	while (const dirent* const entry = readdir(folder.get())) {
		const auto thread = static_cast<pid_t>(std::atoi(entry->d_name));
		if (thread > 0 && thread != self && threads.size() < Watchpoint::threads_max) threads.push_back(thread);
	}
	return threads;
}

int open_event(pid_t thread, std::uint64_t address, unsigned bytes) {
	perf_event_attr attributes{};
	attributes.type = PERF_TYPE_BREAKPOINT;
	attributes.size = sizeof attributes;
	attributes.sample_period = 1;
	attributes.sample_type = PERF_SAMPLE_IP;
	attributes.bp_type = HW_BREAKPOINT_RW;
	attributes.bp_addr = address;
	attributes.bp_len = bytes;
	attributes.exclude_kernel = 1;
	attributes.exclude_hv = 1;
	return static_cast<int>(syscall(SYS_perf_event_open, &attributes, thread, -1, -1, PERF_FLAG_FD_CLOEXEC));
}

// The instruction pointer of the first sample: the trap comes after the access.
std::uintptr_t first_sample(const void* ring) {
	struct Sample {
		perf_event_header header;
		std::uint64_t instruction;
	} sample;
	const auto* const page = static_cast<const perf_event_mmap_page*>(ring);
	if (__atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE) < sizeof sample) return 0;
	std::memcpy(&sample, static_cast<const std::byte*>(ring) + page->data_offset, sizeof sample);
	return sample.header.type == PERF_RECORD_SAMPLE ? sample.instruction : 0;
}

}  // namespace

bool is_watch_without_cause(const siginfo_t& info, const ucontext_t& context) {
	if (info.si_code != TRAP_BRKPT) return false;
	constexpr unsigned char int1 = 0xf1;
	unsigned char before = 0;
	const auto next = static_cast<std::uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
	return !memory::guarded_copy(&before, reinterpret_cast<const void*>(next - 1), 1) || before != int1;
}

Watchpoint::~Watchpoint() {
	for (const Event& event : events_) {
		if (event.ring) munmap(event.ring, ring_bytes());
		close(event.fd);
	}
}

bool Watchpoint::watch(std::uint64_t address, unsigned bytes) {
	bool watched = false;
	for (const pid_t thread : other_threads()) {
		const int fd = open_event(thread, address, bytes);
		if (fd < 0) continue;
		void* const ring = mmap(nullptr, ring_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		events_.push_back({fd, ring == MAP_FAILED ? nullptr : ring});
		watched = true;
	}
	return watched;
}

Watchpoint::Accesses Watchpoint::most() const {
	Accesses most;
	for (const Event& event : events_) {
		std::uint64_t count = 0;
		if (read(event.fd, &count, sizeof count) != sizeof count || count <= most.count) continue;
		most = {count, event.ring ? first_sample(event.ring) : 0};
	}
	return most;
}

}  // namespace verbena::rules
