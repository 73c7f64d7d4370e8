// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/silent_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/descriptor.h"

namespace verbena::engine {

namespace {

// The number at the beginning of a text; 0 if there is none.
std::uint64_t number_in(std::string_view text) {
	std::uint64_t number = 0;
	std::from_chars(text.data(), text.data() + text.size(), number);
	return number;
}

// The text after `name` in a file of lines such as /proc/PID/status; empty if there is none.
std::string_view field(std::string_view text, std::string_view name) {
	const std::size_t at = text.find(name);
	return at == text.npos ? std::string_view{} : text.substr(at + name.size());
}

// If the process is stopped by a signal or a debugger: the number of times that its first thread
// has left a processor.
std::optional<std::uint64_t> switches_if_stopped(pid_t pid) {
	char path[32], bytes[4096];
	std::snprintf(path, sizeof path, "/proc/%d/status", static_cast<int>(pid));
	const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
	const ssize_t length = read(file.get(), bytes, sizeof bytes);
	if (length <= 0) return std::nullopt;
	const std::string_view text(bytes, static_cast<std::size_t>(length));
	const std::string_view state = field(text, "\nState:\t");
	if (!state.starts_with('T') && !state.starts_with('t')) return std::nullopt;
	return number_in(field(text, "\nvoluntary_ctxt_switches:\t")) +
		number_in(field(text, "\nnonvoluntary_ctxt_switches:\t"));
}

// Whether the process uses all descriptors below its limit, so that it gets no other.
bool uses_all_descriptors(pid_t pid) {
	rlimit limit{};
	if (prlimit(pid, RLIMIT_NOFILE, nullptr, &limit) != 0) return false;
	char path[32];
	std::snprintf(path, sizeof path, "/proc/%d/fd", static_cast<int>(pid));
	// The size is the number of descriptors since Linux 6.2, and 0 before.
	struct stat facts;
	if (stat(path, &facts) != 0) return false;
	if (facts.st_size != 0 && static_cast<rlim_t>(facts.st_size) < limit.rlim_cur) return false;
	// It may have others, from before its limit was lowered.
	const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(path), &closedir);
	if (!folder) return false;
	rlim_t below = 0;
	while (const dirent* const entry = readdir(folder.get()))
		below += entry->d_name[0] != '.' && number_in(entry->d_name) < limit.rlim_cur;
	return below >= limit.rlim_cur;
}

}  // namespace

SilentProcess::Reason SilentProcess::look() {
	if (pid_ <= 0) return Reason::unknown;
	const auto switches = switches_if_stopped(pid_);
	stopped_ = switches && switches == switches_ ? stopped_ + 1 : 0;
	switches_ = switches;
	full_ = uses_all_descriptors(pid_) ? full_ + 1 : 0;
	if (stopped_ >= looks_until_certain) return Reason::stopped;
	if (full_ >= looks_until_certain) return Reason::without_descriptors;
	return Reason::unknown;
}

}  // namespace verbena::engine
