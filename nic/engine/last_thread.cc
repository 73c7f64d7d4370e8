// SPDX-License-Identifier: Apache-2.0
#include "nic/engine/last_thread.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "base/descriptor.h"
#include "nic/engine/thread.h"

namespace verbena::engine {
namespace {

// A thread for which there is no place counts as one of the program's: the process then stays.
constinit std::array<std::atomic<pid_t>, 64> own_threads{};

bool is_own(pid_t thread) {
	return std::ranges::any_of(own_threads, [thread](const auto& each) { return each.load() == thread; });
}

// The main thread stays in /proc as a zombie, after all that the program does at a thread's end.
bool has_main_thread_ended() {
	const std::string path = "/proc/self/task/" + std::to_string(getpid()) + "/stat";
	const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
	std::array<char, 512> text{};
	if (!file || read(file.get(), text.data(), text.size() - 1) <= 0) return false;
	const char* const name_end = std::strrchr(text.data(), ')');
	return name_end && std::strncmp(name_end, ") Z", 3) == 0;
}

bool are_all_others_own() {
	const std::unique_ptr<DIR, int (*)(DIR*)> all(opendir("/proc/self/task"), closedir);
	if (!all) return false;
	while (const dirent* const each = readdir(all.get())) {
		const pid_t thread = std::atoi(each->d_name);  // 0 for "." and ".."
		if (thread != 0 && thread != getpid() && !is_own(thread)) return false;
	}
	return true;
}

// The destructor of the main thread's value of a key, which libc calls at the end of a thread, and
// not in exit().
void begin_to_look(void*) {
	auto looking = Thread::start("verbena-last", [] {
		while (!has_main_thread_ended() || !are_all_others_own())
			std::this_thread::sleep_for(std::chrono::milliseconds(50));
		std::exit(0);
	});
	if (looking) looking->forget();
}

struct EndOfThread {
	EndOfThread() : has_key(pthread_key_create(&key, begin_to_look) == 0) {
		// The child has the calling thread alone, which is its main one.
		pthread_atfork(nullptr, nullptr, [] {
			for (std::atomic<pid_t>& each : own_threads) each = 0;
			watch_main_thread();
		});
	}
	pthread_key_t key{};
	bool has_key;
};

// Early: the main thread may never call a verb.
[[gnu::constructor]] void watch_early() { watch_main_thread(); }

}  // namespace

OwnThread::OwnThread() : place_(0) {
	const pid_t self = gettid();
	for (std::atomic<pid_t>& each : own_threads) {
		pid_t free = 0;
		if (each.compare_exchange_strong(free, self)) return;
		++place_;
	}
}

OwnThread::~OwnThread() {
	if (place_ < static_cast<int>(own_threads.size())) own_threads[static_cast<std::size_t>(place_)] = 0;
}

void watch_main_thread() {
	static EndOfThread& end = *new EndOfThread;
	if (end.has_key && gettid() == getpid()) pthread_setspecific(end.key, &end);
}

}  // namespace verbena::engine
